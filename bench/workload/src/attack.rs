//! Requests that have to be refused.

use crate::{
    browser::{self, Fetch},
    definitions::{Attack, Kind, Verdict},
    random::Random,
    request::Request,
};

/// The attack as a browser would send it.
pub(crate) fn request(random: &mut Random, number: usize, attack: &Attack) -> Request {
    let fetch = if attack.body.is_some() { Fetch::Form } else { Fetch::Page };
    let headers = browser::headers(random, fetch);
    let mut request = Request::get(Kind::Attack.name(), number, attack.uri.clone(), headers);
    request.id = format!("attack-{number}-{}", attack.name);
    request.expect = Verdict::Deny;
    request.expect_rule = Some(attack.rule);
    if let Some((name, value)) = &attack.header {
        request.set_header(name, value);
    }
    match &attack.body {
        Some(body) => {
            let form = || "application/x-www-form-urlencoded".to_owned();
            let content_type = attack.content_type.clone().unwrap_or_else(form);
            request.post(content_type, body.clone().into_bytes())
        }
        None => request,
    }
}
