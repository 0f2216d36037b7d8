//! `/scanner?view=blocks`: revisions of the world. `/scanner/blocks/{rev}`: one, with its leaves.

use askama::Template;
use cairn_http::{QueryParams, parse_decimal};
use cairn_scanner::{BlockRow, LeafPage};

use super::{Pages, ROWS_PER_PAGE, paths};
use crate::error::PageError;
use crate::present::{Copy, Hash, Moment, count, path_segment};
use crate::site::Shell;

/// Leaves on one page.
const LEAVES_PER_PAGE: usize = 50;

/// One revision in the list.
pub(super) struct RevisionRow {
    href: String,
    rev: String,
    epoch: String,
    root: Hash,
    leaves: String,
    delta: String,
    at: Moment,
}

impl RevisionRow {
    /// Puts a revision into a line.
    pub(super) fn new(row: &BlockRow) -> Self {
        RevisionRow {
            href: paths::block(row.at.rev, Some(row.at.epoch)),
            rev: count(row.at.rev.unsigned_abs()),
            epoch: count(row.at.epoch.unsigned_abs()),
            root: Hash::new(&row.block.root),
            leaves: count(row.block.leaf_count.unsigned_abs()),
            delta: row
                .block
                .leaf_delta
                .map(|delta| count(delta.unsigned_abs()))
                .unwrap_or_default(),
            at: Moment(row.block.at_ms),
        }
    }
}

/// The list.
#[derive(Template)]
#[template(path = "scanner/blocks.html")]
pub(super) struct BlocksPage {
    shell: Shell,
    epoch: String,
    rows: Vec<RevisionRow>,
    newest: Option<String>,
    older: Option<String>,
}

impl BlocksPage {
    /// Reads a page of the list.
    pub(super) async fn read(pages: &Pages, query: &QueryParams) -> Result<Self, PageError> {
        let cursor = query.get("cursor").filter(|cursor| !cursor.is_empty());
        let page = pages.scanner().blocks(None, cursor, ROWS_PER_PAGE).await?;
        let base = paths::view("blocks");
        Ok(BlocksPage {
            shell: pages.frame("Blocks", "blocks").live(),
            epoch: count(page.epoch.unsigned_abs()),
            rows: page.blocks.iter().map(RevisionRow::new).collect(),
            newest: cursor.map(|_| base.clone()),
            older: page
                .next
                .map(|next| paths::with_query(&base, &[("cursor", &next)])),
        })
    }
}

/// One revision.
#[derive(Template)]
#[template(path = "scanner/block.html")]
pub(super) struct BlockPage {
    shell: Shell,
    blocks_href: String,
    rev: String,
    epoch: String,
    root: Hash,
    copy: Copy,
    leaf_count: String,
    at: Moment,
    occupants: Option<String>,
    leaf_delta: Option<String>,
    label: Option<String>,
    previous: Option<String>,
    next: Option<String>,
    leaves: Option<Leaves>,
}

/// The leaves of the newest revision that came with leaves.
struct Leaves {
    /// Whether they are those of the revision on the page.
    are_of_this: bool,
    root_matches: bool,
    root_text: String,
    rows: Vec<LeafRow>,
    first: String,
    last: String,
    total: String,
    newer: Option<String>,
    older: Option<String>,
}

/// One leaf.
struct LeafRow {
    key: String,
    digest: Hash,
    proof_href: String,
}

impl BlockPage {
    /// Reads a revision.
    pub(super) async fn read(
        pages: &Pages,
        rev: &str,
        query: &QueryParams,
    ) -> Result<Self, PageError> {
        let number = |text: &str| parse_decimal(text).and_then(|n| i64::try_from(n).ok());
        let wrong = || PageError::BadRequest("A revision is a whole number.".to_owned());
        let rev = number(rev).ok_or_else(wrong)?;
        let epoch = match query.get("epoch") {
            None => None,
            Some(text) => Some(number(text).ok_or_else(wrong)?),
        };
        let start = match query.get("leaf") {
            None => 0,
            Some(text) => parse_decimal(text)
                .and_then(|n| usize::try_from(n).ok())
                .ok_or_else(wrong)?,
        };
        let scanner = pages.scanner();
        let row = scanner
            .block(epoch, rev)
            .await?
            .ok_or_else(|| PageError::not_found(format!("There is no revision {rev}.")))?;
        let leaves = scanner.leaves(start, LEAVES_PER_PAGE).await?;
        // Old revisions are removed, and new ones are not there yet.
        let (at, mut near) = (row.at, [None, None]);
        for (place, rev) in near
            .iter_mut()
            .zip([at.rev.checked_sub(1), at.rev.checked_add(1)])
        {
            if let Some(rev) = rev.filter(|rev| *rev >= 0)
                && scanner.block(Some(at.epoch), rev).await?.is_some()
            {
                *place = Some(paths::block(rev, Some(at.epoch)));
            }
        }
        Ok(Self::new(pages, &row, leaves, start, near))
    }

    fn new(
        pages: &Pages,
        row: &BlockRow,
        leaves: Option<LeafPage>,
        start: usize,
        [previous, next]: [Option<String>; 2],
    ) -> Self {
        let (at, block) = (row.at, &row.block);
        let href = |rev: i64| paths::block(rev, Some(at.epoch));
        let leaves = leaves.filter(|leaves| leaves.at == at).map(|page| {
            let shown = page.leaves.len();
            let link =
                |start: usize| paths::with_query(&href(at.rev), &[("leaf", &start.to_string())]);
            Leaves {
                are_of_this: true,
                root_matches: page.root == block.root,
                root_text: page.root,
                rows: page
                    .leaves
                    .iter()
                    .map(|(key, digest)| LeafRow {
                        proof_href: format!("/api/scanner/leaves/{}?proof=1", path_segment(key)),
                        key: key.clone(),
                        digest: Hash::new(digest),
                    })
                    .collect(),
                first: count(start as u64 + 1),
                last: count((start + shown) as u64),
                total: count(page.total as u64),
                newer: start.checked_sub(LEAVES_PER_PAGE).map(link),
                older: (start + shown < page.total).then(|| link(start + LEAVES_PER_PAGE)),
            }
        });
        BlockPage {
            shell: pages.frame(&format!("Revision {}", at.rev), "blocks"),
            blocks_href: paths::view("blocks"),
            rev: count(at.rev.unsigned_abs()),
            epoch: count(at.epoch.unsigned_abs()),
            root: Hash::new(&block.root),
            copy: Copy::new(&block.root),
            leaf_count: count(block.leaf_count.unsigned_abs()),
            at: Moment(block.at_ms),
            occupants: block.occupants.map(|n| count(n.unsigned_abs())),
            leaf_delta: block.leaf_delta.map(|n| count(n.unsigned_abs())),
            label: block.label.clone(),
            previous,
            next,
            leaves,
        }
    }
}
