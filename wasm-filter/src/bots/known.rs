//! Names in user-agents, as their programs send them unless told otherwise. Case does not matter.
//!
//! Each is long enough, or has a `/`, so that it is not part of an ordinary word.

/// Programs that look for flaws: the name, and what stands in the user-agent.
pub(crate) const SCANNERS: &[(&str, &str)] = &[
    ("acunetix", "acunetix"),
    ("arachni", "arachni/"),
    ("commix", "commix/"),
    ("dirbuster", "dirbuster"),
    ("feroxbuster", "feroxbuster/"),
    ("ffuf", "fuzz faster u fool"),
    ("gobuster", "gobuster/"),
    ("golismero", "golismero"),
    ("havij", "havij"),
    ("hydra", "(hydra)"),
    ("jorgee", "jorgee"),
    ("masscan", "masscan/"),
    ("nessus", "nessus"),
    ("netsparker", "netsparker"),
    ("nikto", "nikto/"),
    ("nmap", "nmap scripting engine"),
    ("nuclei", "nuclei - open-source project"),
    ("openvas", "openvas"),
    ("skipfish", "skipfish"),
    ("sqlmap", "sqlmap/"),
    ("sqlninja", "sqlninja"),
    ("w3af", "w3af"),
    ("wfuzz", "wfuzz/"),
    ("whatweb", "whatweb/"),
    ("wpscan", "wpscan v"),
    ("zgrab", "zgrab/"),
    ("zmeu", "zmeu"),
];

/// Libraries and programs that people write their own clients with, and browsers without a window.
pub(crate) const TOOLS: &[(&str, &str)] = &[
    ("aiohttp", "aiohttp/"),
    ("apache-httpclient", "apache-httpclient/"),
    ("axios", "axios/"),
    ("curl", "curl/"),
    ("go", "go-http-client/"),
    ("headless-chrome", "headlesschrome/"),
    ("httpx", "python-httpx/"),
    ("java", "java/"),
    ("java-http-client", "java-http-client/"),
    ("node-fetch", "node-fetch"),
    ("okhttp", "okhttp/"),
    ("perl", "libwww-perl/"),
    ("phantomjs", "phantomjs/"),
    ("postman", "postmanruntime/"),
    ("requests", "python-requests/"),
    ("scrapy", "scrapy/"),
    ("urllib", "python-urllib/"),
    ("wget", "wget/"),
];

/// Crawlers that many sites want to let in, so that others like to say they are them.
pub(crate) const CRAWLERS: &[(&str, &str)] = &[
    ("amazonbot", "amazonbot/"),
    ("applebot", "applebot/"),
    ("baiduspider", "baiduspider"),
    ("bingbot", "bingbot/"),
    ("ccbot", "ccbot/"),
    ("claudebot", "claudebot/"),
    ("duckduckbot", "duckduckbot"),
    ("facebook", "facebookexternalhit/"),
    ("googlebot", "googlebot"),
    ("gptbot", "gptbot/"),
    ("petalbot", "petalbot"),
    ("yahoo", "yahoo! slurp"),
    ("yandexbot", "yandexbot/"),
];
