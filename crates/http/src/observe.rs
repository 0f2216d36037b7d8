//! Who counts requests: a trait that a metrics registry implements, and the layer that names the endpoint.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use axum::response::Response;
use tower::{Layer, Service};

/// The endpoint of requests that no route matched. One name for all of them: paths are the client's choice, and a
/// metric must not grow with them.
pub const UNMATCHED_ENDPOINT: &str = "unmatched";

/// One answered request.
#[derive(Debug, Clone, Copy)]
pub struct RequestSeen<'a> {
    /// The route's template, like `/tx/{txid}`, or [`UNMATCHED_ENDPOINT`].
    pub endpoint: &'a str,
    /// The method.
    pub method: &'a Method,
    /// The answer's status.
    pub status: u16,
    /// From the complete request head to the head of the answer.
    pub duration: Duration,
}

/// Told about requests and connections. Called on the serving threads: must not block.
pub trait RequestObserver: Send + Sync + 'static {
    /// A request was answered.
    fn request(&self, seen: RequestSeen<'_>);
    /// A connection was accepted.
    fn connection_opened(&self) {}
    /// A connection ended.
    fn connection_closed(&self) {}
}

/// Copies the template of the matched route from the request to the answer, where the surface finds it.
#[derive(Clone, Copy)]
pub(crate) struct EndpointLayer;

impl<S> Layer<S> for EndpointLayer {
    type Service = EndpointService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        EndpointService(inner)
    }
}

#[derive(Clone)]
pub(crate) struct EndpointService<S>(S);

impl<S> Service<Request> for EndpointService<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let matched = request.extensions().get::<MatchedPath>().cloned();
        let answer = self.0.call(request);
        Box::pin(async move {
            let mut response = answer.await?;
            if let Some(matched) = matched {
                response.extensions_mut().insert(matched);
            }
            Ok(response)
        })
    }
}
