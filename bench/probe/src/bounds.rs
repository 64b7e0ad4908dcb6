//! `bounds`: the time and the memory of the largest bodies, where rules look on.

use std::sync::Arc;

use glacis_engine::{Program, Transaction};
use serde_json::json;

use crate::{
    Outcome,
    clock::cpu_time,
    hostile::bodies,
    load::{PEAK_MEMORY, forget_peak, status},
    request::Request,
};

/// Prints, for each family whose content is a body of so many bytes, the CPU time of the request and the largest size
/// of the process while it is evaluated; of one family, or of all when `only` is empty. One body after the other is in
/// memory, beside the rules.
pub(crate) fn run(program: Arc<Program>, bytes: &str, only: &str) -> Outcome<()> {
    let mut transaction = Transaction::new(program);
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
