//! Small charts as SVG, drawn on the server. A chart is a picture of numbers that stand beside it as text, so it is one image
//! with a name for those who do not see it. Sizes come from the style sheet: the drawings stretch.

use std::fmt::{self, Write as _};

use super::escape::escaped;

/// Width of every drawing, in its own units.
const WIDTH: f64 = 200.0;
/// Height of every drawing, in its own units.
const HEIGHT: f64 = 48.0;
/// Room above and below a line, so that its stroke is not cut.
const MARGIN: f64 = 2.0;

/// A line over time, newest value at the right.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sparkline {
    label: String,
    /// Where each value stands on the way from left to right, and the value.
    points: Vec<(f64, f64)>,
    /// Whether a value holds until the next one, as a balance does.
    steps: bool,
}

/// Bars beside each other, oldest or first at the left.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bars {
    label: String,
    /// Height and name of each.
    bars: Vec<(f64, String)>,
}

impl Sparkline {
    /// A line of values at equal distances.
    pub(crate) fn new(label: impl Into<String>, values: Vec<f64>) -> Self {
        Self {
            label: label.into(),
            points: (0_u32..).map(f64::from).zip(values).collect(),
            steps: false,
        }
    }

    /// A line of values, each with its time, that hold until the next one.
    pub(crate) fn steps(label: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self {
            label: label.into(),
            points,
            steps: true,
        }
    }

    /// Whether there is anything to draw.
    fn is_empty(&self) -> bool {
        self.points.len() < 2
    }
}

impl Bars {
    /// Bars with their names, which are shown when the pointer rests on them.
    pub(crate) fn new(label: impl Into<String>, bars: Vec<(f64, String)>) -> Self {
        Self {
            label: label.into(),
            bars: bars
                .into_iter()
                .map(|(height, name)| (finite(height).max(0.0), name))
                .collect(),
        }
    }
}

/// What is not a number is drawn as nothing.
fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

/// The beginning of a drawing.
fn open(f: &mut fmt::Formatter<'_>, class: &str, label: &str) -> fmt::Result {
    write!(
        f,
        "<svg class=\"chart {class}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">",
        escaped(label)
    )
}

impl fmt::Display for Sparkline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        open(f, "line", &self.label)?;
        if self.is_empty() {
            return write!(
                f,
                "<path class=\"base\" d=\"M0 {y}H{WIDTH}\"/></svg>",
                y = HEIGHT - MARGIN
            );
        }
        let top = self
            .points
            .iter()
            .map(|(_, y)| finite(*y))
            .fold(f64::MIN, f64::max);
        let bottom = self
            .points
            .iter()
            .map(|(_, y)| finite(*y))
            .fold(0.0, f64::min);
        let span = if top > bottom { top - bottom } else { 1.0 };
        let first = self.points.first().map_or(0.0, |(x, _)| finite(*x));
        let last = self.points.last().map_or(1.0, |(x, _)| finite(*x));
        let width = if last > first { last - first } else { 1.0 };
        let mut path = String::new();
        for (i, (x, y)) in self.points.iter().enumerate() {
            let x = ((finite(*x) - first) / width).clamp(0.0, 1.0) * WIDTH;
            let y = HEIGHT - MARGIN - (finite(*y) - bottom) / span * (HEIGHT - 2.0 * MARGIN);
            match (i, self.steps) {
                (0, _) => write!(path, "M{x:.1} {y:.1}")?,
                (_, false) => write!(path, "L{x:.1} {y:.1}")?,
                (_, true) => write!(path, "H{x:.1}V{y:.1}")?,
            }
        }
        write!(
            f,
            "<path class=\"area\" d=\"{path}V{HEIGHT}H0Z\"/><path class=\"stroke\" d=\"{path}\"/></svg>"
        )
    }
}

impl askama::filters::HtmlSafe for Sparkline {}

impl fmt::Display for Bars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        open(f, "bars", &self.label)?;
        let top = self
            .bars
            .iter()
            .map(|(height, _)| *height)
            .fold(0.0, f64::max);
        let step = WIDTH / self.bars.len().max(1) as f64;
        for (i, (height, name)) in self.bars.iter().enumerate() {
            let tall = if top > 0.0 {
                (height / top * (HEIGHT - MARGIN)).max(0.4)
            } else {
                0.4
            };
            write!(
                f,
                "<rect x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{tall:.2}\"><title>{}</title></rect>",
                i as f64 * step + step * 0.1,
                HEIGHT - tall,
                step * 0.8,
                escaped(name)
            )?;
        }
        f.write_str("</svg>")
    }
}

impl askama::filters::HtmlSafe for Bars {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_inside_its_box() {
        let svg = Sparkline::new("rate", vec![0.0, 5.0, 10.0]).to_string();
        assert!(svg.contains("M0.0 46.0L100.0 24.0L200.0 2.0"), "{svg}");
        let svg = Sparkline::steps("balance", vec![(5.0, 0.0), (6.0, 10.0)]).to_string();
        assert!(svg.contains("M0.0 46.0H200.0V2.0"), "{svg}");
    }

    #[test]
    fn senseless_values_are_nothing() {
        let svg = Sparkline::new("rate", vec![f64::NAN, f64::INFINITY, 1.0]).to_string();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(
            Sparkline::new("rate", vec![1.0])
                .to_string()
                .contains("base")
        );
        assert!(
            Bars::new("none", Vec::new())
                .to_string()
                .ends_with("></svg>")
        );
    }

    #[test]
    fn names_are_escaped() {
        let svg = Bars::new("\"<x>", vec![(1.0, "</title><script>".to_owned())]).to_string();
        assert!(!svg.contains("<script") && !svg.contains("<x>"), "{svg}");
    }
}
