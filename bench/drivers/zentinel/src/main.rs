//! The benchmark's driver for zentinel-modsec.

use std::error::Error;

use glacis_bench_measure::{Engine, Outcome, Request, Response, run};
use zentinel_modsec::{ModSecurity, Transaction, VERSION};

struct Zentinel(ModSecurity);

impl Engine for Zentinel {
    type Transaction = Transaction;

    fn load(rules: &str) -> Result<Self, Box<dyn Error>> {
        Ok(Self(ModSecurity::from_file(rules)?))
    }

    fn version(&self) -> (String, String) {
        ("zentinel".to_owned(), VERSION.to_owned())
    }

    fn evaluate(&self, request: &Request) -> Result<Transaction, Box<dyn Error>> {
        let mut transaction = self.0.new_transaction();
        evaluate_request(&mut transaction, request)?;
        if let Some(response) = &request.response
            && !transaction.has_intervention()
        {
            evaluate_response(&mut transaction, response)?;
        }
        transaction.process_logging()?;
        Ok(transaction)
    }

    fn outcome(&self, transaction: &Transaction) -> Outcome {
        Outcome {
            refused: transaction.intervention().map(|intervention| intervention.status),
            matched: transaction.matched_rules().iter().filter_map(|id| id.parse().ok()).collect(),
        }
    }
}

fn evaluate_request(
    transaction: &mut Transaction,
    request: &Request,
) -> Result<(), Box<dyn Error>> {
    transaction.set_client_addr(&request.client.ip, request.client.port);
    transaction.set_server_addr(&request.server.ip, request.server.port);
    transaction.set_server_name(request.host());
    transaction.process_uri(&request.uri, &request.method, &request.protocol)?;
    for (name, value) in &request.headers {
        transaction.add_request_header(name, value)?;
    }
    transaction.process_request_headers()?;
    if transaction.has_intervention() {
        return Ok(());
    }
    if !request.body.is_empty() {
        transaction.append_request_body(&request.body)?;
    }
    Ok(transaction.process_request_body()?)
}

/// It has no way to be told the response's status, and does not select by content type.
fn evaluate_response(
    transaction: &mut Transaction,
    response: &Response,
) -> Result<(), Box<dyn Error>> {
    for (name, value) in &response.headers {
        transaction.add_response_header(name, value)?;
    }
    transaction.process_response_headers()?;
    if transaction.has_intervention() {
        return Ok(());
    }
    let is_text = |(name, value): &(String, String)| {
        name.eq_ignore_ascii_case("content-type") && value.starts_with("text/")
    };
    if response.headers.iter().any(is_text) {
        transaction.append_response_body(&response.body)?;
    }
    Ok(transaction.process_response_body()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    run::<Zentinel>()
}
