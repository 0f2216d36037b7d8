//! Lines out of a stream of bytes, with a hard limit.

/// Bytes that one read asks for: little for a client that says little, more for one that fills what it is given.
const READ_BYTES_MIN: usize = 4 * 1024;
const READ_BYTES_MAX: usize = 64 * 1024;
/// An empty buffer larger than this is given back.
const KEPT_BYTES: usize = 64 * 1024;

/// What comes next out of the bytes received.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A whole line without its end.
    Whole(Vec<u8>),
    /// No whole line yet.
    Partial,
    /// A line longer than the limit.
    TooLong,
}

/// Collects bytes and hands out lines.
#[derive(Debug)]
pub(crate) struct LineBuffer {
    bytes: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// Up to where there is no line end.
    scanned: usize,
    /// What the next read asks for.
    read_bytes: usize,
    max: usize,
}

impl LineBuffer {
    /// Lines of at most `max` bytes.
    pub(crate) fn new(max: usize) -> Self {
        Self {
            bytes: Vec::new(),
            start: 0,
            scanned: 0,
            read_bytes: READ_BYTES_MIN,
            max,
        }
    }

    /// Where to read to. There is room for at least one read.
    pub(crate) fn space(&mut self) -> &mut Vec<u8> {
        if !self.bytes.is_empty() && self.bytes.len() == self.bytes.capacity() {
            self.read_bytes = (self.read_bytes * 2).min(READ_BYTES_MAX);
        }
        if self.start == self.bytes.len() {
            self.bytes.clear();
            (self.start, self.scanned) = (0, 0);
            if self.bytes.capacity() > KEPT_BYTES {
                self.bytes = Vec::new();
                self.read_bytes = READ_BYTES_MIN;
            }
        } else if self.start > READ_BYTES_MAX {
            self.bytes.drain(..self.start);
            self.scanned -= self.start;
            self.start = 0;
        }
        if self.bytes.capacity() - self.bytes.len() < READ_BYTES_MIN {
            self.bytes.reserve(self.read_bytes);
        }
        &mut self.bytes
    }

    /// Bytes that are not handed out yet.
    pub(crate) fn waiting(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// The bytes that are not handed out yet.
    pub(crate) fn peek(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Whether a whole line may be there.
    pub(crate) fn has_line(&self) -> bool {
        self.bytes[self.scanned..].contains(&b'\n')
    }

    /// The next line. Empty lines are skipped.
    pub(crate) fn next(&mut self) -> Line {
        loop {
            let Some(found) = self.bytes[self.scanned..]
                .iter()
                .position(|byte| *byte == b'\n')
            else {
                self.scanned = self.bytes.len();
                return if self.waiting() > self.max {
                    Line::TooLong
                } else {
                    Line::Partial
                };
            };
            let end = self.scanned + found;
            let line = &self.bytes[self.start..end];
            let (from, length) = (self.start, line.len());
            self.start = end + 1;
            self.scanned = self.start;
            if length > self.max {
                return Line::TooLong;
            }
            let line = self.bytes[from..end].trim_ascii();
            if !line.is_empty() {
                return Line::Whole(line.to_vec());
            }
        }
    }

    /// What is left when the other side has closed: a last line without an end counts.
    pub(crate) fn rest(&mut self) -> Line {
        let rest = self.peek().trim_ascii().to_vec();
        self.start = self.bytes.len();
        self.scanned = self.start;
        if rest.is_empty() {
            Line::Partial
        } else {
            Line::Whole(rest)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(pieces: &[&[u8]], max: usize) -> Vec<Line> {
        let mut buffer = LineBuffer::new(max);
        let mut lines = Vec::new();
        for piece in pieces {
            buffer.space().extend_from_slice(piece);
            loop {
                match buffer.next() {
                    Line::Partial => break,
                    Line::TooLong => {
                        lines.push(Line::TooLong);
                        return lines;
                    }
                    line => lines.push(line),
                }
            }
        }
        lines
    }

    fn whole(text: &str) -> Line {
        Line::Whole(text.into())
    }

    #[test]
    fn pieces_of_any_size() {
        assert_eq!(
            lines(&[b"a\nb\r\n \n", b"c", b"d\n"], 10),
            [whole("a"), whole("b"), whole("cd")]
        );
        assert_eq!(
            lines(&[b"12345\n123456\n7"], 5),
            [whole("12345"), Line::TooLong]
        );
        assert_eq!(lines(&[b"123", b"456"], 5), [Line::TooLong]);
        let mut buffer = LineBuffer::new(5);
        buffer.space().extend_from_slice(b"x\ny ");
        assert_eq!(
            (buffer.next(), buffer.next(), buffer.rest()),
            (whole("x"), Line::Partial, whole("y"))
        );
        assert_eq!((buffer.waiting(), buffer.rest()), (0, Line::Partial));
    }

    proptest! {
        #[test]
        fn cuts_make_no_difference(text in "[ab\n]{0,80}", cuts in proptest::collection::vec(0usize..80, 0..6)) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &text.as_bytes()[pair[0]..pair[1]]).collect();
            let whole_lines: Vec<Line> = text[..text.rfind('\n').map_or(0, |end| end + 1)]
                .split('\n').filter(|line| !line.is_empty()).map(whole).collect();
            prop_assert_eq!(lines(&pieces, 100), whole_lines);
        }
    }
}
