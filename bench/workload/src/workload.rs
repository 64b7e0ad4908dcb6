//! The sets of requests, each a file.

use crate::{
    attack, curve,
    definitions::{Class, Definitions, Kind, Verdict},
    page,
    random::Random,
    request::Request,
};

/// Names of the sets with their requests:
///
/// - one of each class, and `all` of them in random order;
/// - `mix`, the classes in their proportions, in random order;
/// - `mix_response`, the first of the mix, with what the application answers;
/// - `curve_KIND_SIZE`, bodies of growing size.
pub(crate) fn sets(definitions: &Definitions) -> Vec<(String, Vec<Request>)> {
    let mut sets: Vec<(String, Vec<Request>)> = Vec::new();
    let mut all = Vec::new();
    for class in &definitions.classes {
        let mut requests = of_class(definitions, class);
        requests.iter_mut().take(class.in_mix).for_each(|request| request.in_mix = true);
        all.extend_from_slice(&requests);
        sets.push((class.name.name().to_owned(), requests));
    }
    Random::new(definitions.seed, "order of the mix").shuffle(&mut all);
    let mix: Vec<Request> = all.iter().filter(|request| request.in_mix).cloned().collect();
    sets.push(("mix_response".to_owned(), with_responses(definitions, &mix)));
    sets.push(("mix".to_owned(), mix));
    sets.push(("all".to_owned(), all));
    for kind in curve::KINDS {
        for bytes in &definitions.curve_bytes {
            let name = curve::name(kind, *bytes);
            let mut random = Random::new(definitions.seed, &name);
            let requests = (0..definitions.curve_requests)
                .map(|number| curve::request(&mut random, kind, *bytes, number));
            sets.push((name.clone(), requests.collect()));
        }
    }
    sets
}

fn of_class(definitions: &Definitions, class: &Class) -> Vec<Request> {
    let mut random = Random::new(definitions.seed, class.name.name());
    let requests = 0..class.requests;
    if class.name == Kind::Attack {
        let attacks = definitions.attacks.iter().cycle();
        let numbered = requests.zip(attacks);
        return numbered.map(|(number, one)| attack::request(&mut random, number, one)).collect();
    }
    let make = match class.name {
        Kind::GetStatic => page::get_static,
        Kind::Json => page::json,
        Kind::LoginForm => page::login_form,
        Kind::Upload => page::upload,
        Kind::GetPage | Kind::Attack => page::get_page,
    };
    requests.map(|number| make(&mut random, number)).collect()
}

/// A refused request never gets as far as a response.
fn with_responses(definitions: &Definitions, mix: &[Request]) -> Vec<Request> {
    let mut random = Random::new(definitions.seed, "responses");
    let answer = |request: &Request| {
        let is_static = request.class == Kind::GetStatic.name();
        let class = "mix_response".to_owned();
        let mut answered = Request { class, in_mix: false, ..request.clone() };
        if answered.expect == Verdict::Allow {
            answered.response = Some(page::response(&mut random, is_static));
        }
        answered
    };
    mix.iter().take(definitions.responses).map(answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFINITIONS: &str = include_str!("../../definitions.yaml");

    fn definitions() -> Definitions {
        Definitions::parse(DEFINITIONS).unwrap()
    }

    fn set<'a>(sets: &'a [(String, Vec<Request>)], name: &str) -> &'a [Request] {
        sets.iter().find(|(known, _)| known == name).map(|(_, requests)| &**requests).unwrap()
    }

    #[test]
    fn the_same_definitions_give_the_same_lines() {
        let lines = |seed| {
            let sets = sets(&Definitions { seed, ..definitions() });
            let all = sets.iter().flat_map(|(_, requests)| requests.iter().map(Request::line));
            all.collect::<Vec<_>>()
        };
        let (once, twice, other) = (lines(1), lines(1), lines(2));
        assert!(once == twice);
        assert!(once != other);
    }

    #[test]
    fn the_mix_has_its_proportions() {
        let definitions = definitions();
        let sets = sets(&definitions);
        let mix = set(&sets, "mix");
        assert_eq!(mix.len(), 1_000);
        for class in &definitions.classes {
            let of_class = mix.iter().filter(|request| request.class == class.name.name());
            assert_eq!(of_class.count(), class.in_mix, "{:?}", class.name);
            assert_eq!(set(&sets, class.name.name()).len(), class.requests, "{:?}", class.name);
        }
        assert_eq!(set(&sets, "mix_response").len(), definitions.responses);
    }

    #[test]
    fn requests_have_the_headers_of_a_browser() {
        for (name, requests) in sets(&definitions()) {
            for request in requests {
                assert!(
                    (10..=15).contains(&request.headers.len()),
                    "{name}: {:?}",
                    request.headers
                );
                let length = request.headers.iter().find(|(name, _)| name == "Content-Length");
                let body = request.body.as_ref().map(|body| body.len().to_string());
                assert_eq!(length.map(|(_, value)| value.clone()), body, "{}", request.id);
            }
        }
    }

    #[test]
    fn bodies_have_the_sizes_that_are_promised() {
        let definitions = definitions();
        let sets = sets(&definitions);
        let check = |name: &str, low: usize, high: usize| {
            for request in set(&sets, name) {
                let bytes = request.body.as_ref().map_or(0, Vec::len);
                assert!((low..=high).contains(&bytes), "{}: {bytes} bytes", request.id);
            }
        };
        check("json", 900, 6 << 10);
        check("upload", 100 << 10, 1 << 20);
        for kind in curve::KINDS {
            for bytes in &definitions.curve_bytes {
                check(&curve::name(kind, *bytes), bytes - bytes / 8, bytes + bytes / 8);
            }
        }
        for request in set(&sets, "mix_response") {
            let bytes = request.response.as_ref().map(|response| response.body.len());
            assert_eq!(bytes.is_some(), request.expect == Verdict::Allow, "{}", request.id);
            assert!(bytes.is_none_or(|bytes| (1 << 10..=10 << 10).contains(&bytes)), "{bytes:?}");
        }
    }
}
