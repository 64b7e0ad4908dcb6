//! `glacis bans`: lists, adds and removes bans of a running ext-authz, through its admin port.

use std::io::Write as _;

use serde_json::{Value, json};

use crate::admin::{Admin, encoded};
use crate::arguments::{BanAction, BansOptions};
use crate::output::{self, Fault, Outcome};

/// Bans that are asked for at once.
const PAGE: usize = 1_000;
/// Pages at most: there are at most 10,000 bans.
const PAGES_MAX: usize = 100;

/// Does what is asked. That a network was not banned is a finding.
pub(crate) fn run(options: &BansOptions) -> Result<Outcome, Fault> {
    let admin = Admin::new(&options.admin, options.token_file.as_deref()).map_err(Fault::Input)?;
    match &options.action {
        BanAction::List => list(&admin, options.json),
        BanAction::Add { network, seconds } => {
            let body = json!({"network": network, "seconds": seconds}).to_string();
            let told = ask(&admin, "PUT", "/bans", &body)?;
            let until = told["until"].as_u64().unwrap_or_default();
            let network = told["network"].as_str().unwrap_or_default();
            let shared = told["shared"].as_bool().unwrap_or_default();
            print(options.json, &told, &format!("{network} is banned until {until}\n"))?;
            if !shared {
                output::remark(format_args!(
                    "Redis does not answer: this service refuses it, and tells the others later"
                ));
            }
            Ok(Outcome::Clean)
        }
        BanAction::Remove { network } => {
            let body = json!({"network": network}).to_string();
            let told = ask(&admin, "POST", "/bans/remove", &body)?;
            let removed = told["removed"].as_bool().unwrap_or_default();
            let what = if removed { "is no longer banned" } else { "was not banned" };
            let network = told["network"].as_str().unwrap_or_default();
            print(options.json, &told, &format!("{network} {what}\n"))?;
            Ok(if removed { Outcome::Clean } else { Outcome::Findings })
        }
    }
}

fn ask(admin: &Admin, method: &str, path: &str, body: &str) -> Result<Value, Fault> {
    let told = admin.ask(method, path, Some(body).filter(|body| !body.is_empty()));
    let told = told.map_err(|error| error.fault(admin.address()))?;
    let not_ours = |_| Fault::Input(format!("{}: the answer is no JSON", admin.address()));
    serde_json::from_str(&told).map_err(not_ours)
}

fn print(as_json: bool, told: &Value, line: &str) -> Result<(), Fault> {
    let mut out = output::results();
    match as_json {
        true => writeln!(out, "{told}")?,
        false => out.write_all(line.as_bytes())?,
    }
    Ok(out.flush()?)
}

fn list(admin: &Admin, as_json: bool) -> Result<Outcome, Fault> {
    let mut bans: Vec<Value> = Vec::new();
    let mut after = String::new();
    for _ in 0..PAGES_MAX {
        let page = ask(admin, "GET", &format!("/bans?limit={PAGE}{after}"), "")?;
        bans.extend(page["bans"].as_array().into_iter().flatten().cloned());
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={}", encoded(next));
    }
    let mut out = output::results();
    match as_json {
        true => writeln!(out, "{}", json!({ "bans": bans }))?,
        false => {
            for ban in &bans {
                let network = ban["network"].as_str().unwrap_or_default();
                let seconds = ban["seconds"].as_u64().unwrap_or_default();
                writeln!(out, "{network} for {seconds} s")?;
            }
        }
    }
    out.flush()?;
    Ok(Outcome::Clean)
}
