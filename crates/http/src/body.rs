//! Request bodies: bounded in size and in time.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::StatusCode;
use futures_util::StreamExt;

use crate::error::HttpError;

/// The usual bound of a request body, bytes.
pub const DEFAULT_BODY_LIMIT: usize = 1_000_000;

/// The time a body may take unless the surface says otherwise.
const DEFAULT_BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// How the surface tells [`read_body`] the time a body may take.
#[derive(Clone, Copy)]
pub(crate) struct BodyTimeout(pub(crate) Duration);

/// Reads the whole body. 413 if it is larger than `limit` bytes (without reading it all), 408 if the client is too
/// slow, 400 if it breaks off.
pub async fn read_body(request: Request, limit: usize) -> Result<Bytes, HttpError> {
    let timeout = request
        .extensions()
        .get::<BodyTimeout>()
        .map_or(DEFAULT_BODY_TIMEOUT, |&BodyTimeout(timeout)| timeout);
    let body = request.into_body();
    let announced = usize::try_from(axum::body::HttpBody::size_hint(&body).lower());
    if announced.map_or(true, |length| length > limit) {
        return Err(too_large());
    }
    let mut chunks = body.into_data_stream();
    let read = async {
        let mut whole = Vec::new();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| {
                tracing::debug!(%error, "request body broke off");
                HttpError::bad_request("request body broke off")
            })?;
            if whole.len() + chunk.len() > limit {
                return Err(too_large());
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(Bytes::from(whole))
    };
    match tokio::time::timeout(timeout, read).await {
        Ok(result) => result,
        Err(_) => Err(HttpError::new(
            StatusCode::REQUEST_TIMEOUT,
            "Request timeout",
        )),
    }
}

fn too_large() -> HttpError {
    HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, "Request body too large")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use futures_util::stream;

    fn chunked(chunks: Vec<&'static str>) -> Request {
        let chunks = chunks
            .into_iter()
            .map(|c| Ok::<_, std::io::Error>(Bytes::from(c)));
        Request::new(Body::from_stream(stream::iter(chunks)))
    }

    #[tokio::test]
    async fn bound_is_exact_for_known_and_unknown_lengths() {
        let whole = read_body(Request::new(Body::from("12345")), 5)
            .await
            .expect("fits");
        assert_eq!(whole, "12345");
        let error = read_body(Request::new(Body::from("123456")), 5)
            .await
            .expect_err("too long");
        assert_eq!(
            (error.status().as_u16(), error.text()),
            (413, "Request body too large")
        );
        assert_eq!(
            read_body(chunked(vec!["123", "45"]), 5)
                .await
                .expect("fits"),
            "12345"
        );
        assert_eq!(
            read_body(chunked(vec!["123", "456"]), 5)
                .await
                .expect_err("long")
                .status(),
            413
        );
    }

    #[tokio::test]
    async fn slow_body_is_408() {
        let mut request = Request::new(Body::from_stream(stream::pending::<
            Result<Bytes, std::io::Error>,
        >()));
        request
            .extensions_mut()
            .insert(BodyTimeout(Duration::from_millis(30)));
        let error = read_body(request, 5).await.expect_err("never ends");
        assert_eq!(
            (error.status().as_u16(), error.text()),
            (408, "Request timeout")
        );
    }
}
