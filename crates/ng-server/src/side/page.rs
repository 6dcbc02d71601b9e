//! The page of the side port: files that are part of the program, and what browsers may do with
//! them.

use axum::Router;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::routing::get;

/// Nothing but the page's own files and its own server; nobody may put it into a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// Path, type, content.
const FILES: [(&str, &str, &str); 7] = [
    ("/", HTML, include_str!("page/index.html")),
    ("/page/style.css", "text/css; charset=utf-8", include_str!("page/style.css")),
    ("/page/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
    ("/page/metrics.js", SCRIPT, include_str!("page/metrics.js")),
    ("/page/chart.js", SCRIPT, include_str!("page/chart.js")),
    ("/page/hops.js", SCRIPT, include_str!("page/hops.js")),
    ("/page/app.js", SCRIPT, include_str!("page/app.js")),
];
const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The page and its files.
pub fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    FILES.iter().fold(Router::new(), |router, (path, kind, content)| {
        let headers = [
            (CONTENT_TYPE, *kind),
            (CONTENT_SECURITY_POLICY, POLICY),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
            (CACHE_CONTROL, "no-cache"),
        ];
        router.route(path, get(move || async move { (headers, *content) }))
    })
}
