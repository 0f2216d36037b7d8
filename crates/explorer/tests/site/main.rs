//! The whole site over a real index of the bundled sample chain: every link is followed, every page is read like a
//! browser would, and what a page says is compared with the generator's model.

mod answers;
mod crawl;
mod html;
mod ledgers;
mod site;
