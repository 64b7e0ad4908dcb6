//! `bounds`: the time and the memory of the largest bodies, where rules look on.

use std::fs;

use glacis_engine::Transaction;
use serde_json::json;

use crate::{
    Outcome,
    clock::cpu_time,
    hostile::bodies,
    load::{PEAK_MEMORY, status},
    program,
    request::Request,
};

/// Prints, for each family whose content is a body of so many bytes, the CPU time of the request and the largest size
/// of the process while it is evaluated; of one family, or of all when `only` is empty. One body after the other is in
/// memory, beside the rules.
pub(crate) fn run(rules: &str, bytes: &str, only: &str) -> Outcome<()> {
    let mut transaction = Transaction::new(program(rules)?);
    let bytes: usize = bytes.parse()?;
    for (family, request) in bodies().filter(|(name, _)| only.is_empty() || *name == only) {
        let request = request(bytes);
        forget_peak()?;
        let begin = cpu_time();
        request.inspect(&mut transaction);
        let time = cpu_time().saturating_sub(begin);
        let told = json!({
            "family": family,
            "bytes": request.bytes(),
            "ns": u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
            "peak_bytes": status(PEAK_MEMORY)?,
            "steps": transaction.rule_steps(),
            "limits": transaction.flags().names().collect::<Vec<_>>(),
        });
        println!("{told}");
        // As a service does between requests; another request lets go of what is left of this one.
        transaction.rest();
        Request::get("/", Vec::new()).inspect(&mut transaction);
    }
    Ok(())
}

/// Sets the largest size of this process back to the present one (Linux, proc(5), `clear_refs`).
fn forget_peak() -> Outcome<()> {
    Ok(fs::write("/proc/self/clear_refs", "5")?)
}
