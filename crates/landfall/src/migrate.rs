//! `landfall migrate`: brings the store's schema up to date and makes the queues that are missing,
//! so that the relays themselves need no right to.

use serde_json::json;

use crate::cli::CheckArguments;
use crate::config::{self, Need, Sources};
use crate::failure::Result;
use crate::show::Show;
use crate::wire;

pub async fn run(arguments: &CheckArguments) -> Result<()> {
    let data = arguments.data.as_ref().map(|path| path.display().to_string());
    let sources =
        Sources::surroundings(arguments.config.clone()).with_flag("instance.data", "--data", data);
    let config = config::load(&sources, Need::Store)?;
    let done = wire::migrate(&config, wire::clock()).await?;
    let show = Show::on_stdout(arguments.json);
    match show.json {
        true => show.value(&json!({ "done": done })),
        false => done.iter().for_each(|line| show.line(line)),
    }
    Ok(())
}
