//! Names in user-agents, as their programs send them unless told otherwise. Case does not matter.
//!
//! Each is long enough, or has a `/`, so that it is not part of an ordinary word. A blank at the start of a text
//! means that the name has to begin there: `zap/` is ZAP, `appzap/` is not.
//!
//! `httpx` is a scanner of ProjectDiscovery and a library for Python (`python-httpx/`) and Ruby (`httpx.rb/`). Only
//! the scanner names its makers, so that is what tells it. So does their crawler `katana`, which is also a part of
//! the name of Facebook's app for Android (`com.facebook.katana`).

/// Programs that look for flaws: the name, and what stands in the user-agent.
pub(crate) const SCANNERS: &[(&str, &str)] = &[
    ("acunetix", "acunetix"),
    ("arachni", "arachni/"),
    ("burp", "burp suite"),
    ("burp", "burpsuite"),
    ("burp", "burpcollaborator"),
    ("burp", " burp/"),
    ("censys", "censysinspect/"),
    ("commix", "commix/"),
    ("dalfox", "dalfox"),
    ("dirbuster", "dirbuster"),
    ("dirsearch", "dirsearch"),
    ("expanse", "expanse, a palo alto networks company"),
    ("feroxbuster", "feroxbuster/"),
    ("ffuf", "fuzz faster u fool"),
    ("ghauri", "ghauri"),
    ("gobuster", "gobuster/"),
    ("golismero", "golismero"),
    ("havij", "havij"),
    ("httpx", "httpx - open-source project"),
    ("httpx", "projectdiscovery/httpx"),
    ("hydra", "(hydra)"),
    ("jaeles", "jaeles"),
    ("jorgee", "jorgee"),
    ("katana", " katana/"),
    ("katana", "katana - open-source project"),
    ("katana", "projectdiscovery/katana"),
    ("masscan", "masscan/"),
    ("nessus", "nessus"),
    ("netsparker", "netsparker"),
    ("nikto", "nikto/"),
    ("nmap", "nmap scripting engine"),
    ("nuclei", "nuclei - open-source project"),
    ("openvas", "openvas"),
    ("skipfish", "skipfish"),
    ("sqlmap", "sqlmap"),
    ("sqlninja", "sqlninja"),
    ("w3af", "w3af"),
    ("wfuzz", "wfuzz/"),
    ("whatweb", "whatweb/"),
    ("wpscan", "wpscan v"),
    ("zap", "owasp zap"),
    ("zap", "zaproxy"),
    ("zap", " zap/"),
    ("zgrab", "zgrab/"),
    ("zmap", " zmap"),
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
