//! tmp
mod config;
fn main() {
    if std::env::args().nth(1).as_deref() == Some("settings") {
        print!("{}", config::reference_markdown());
    }
}
