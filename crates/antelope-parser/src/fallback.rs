//! The chain API as the last resort for an ABI: it gives the ABI of today, which is wrong for much of history.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use cairn_antelope_abi::{ABI_BYTES_MAX, Name};
use serde::Deserialize;

/// How long one question may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// After a failure nobody is asked for this long, so that a dead chain API does not slow every block.
const PAUSE: Duration = Duration::from_secs(60);
/// Base64 of the largest ABI, and some room.
const ANSWER_BYTES_MAX: usize = ABI_BYTES_MAX / 3 * 4 + 4096;

/// Nodes pad as they like.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Why the chain API gave no ABI.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum FallbackError {
    #[error("the chain API at {url} gives no ABI of {contract}: {cause}")]
    Call {
        url: String,
        contract: Name,
        cause: String,
    },
    #[error("the chain API at {url} is on chain {found}, not on {expected}: chain_url is wrong")]
    OtherChain {
        url: String,
        expected: String,
        found: String,
    },
}

pub(crate) struct ChainApi {
    client: reqwest::Client,
    url: String,
    checked_for: Option<String>,
    quiet_until: Option<Instant>,
}

#[derive(Deserialize)]
struct Info {
    chain_id: String,
    head_block_num: u32,
}

#[derive(Deserialize)]
struct RawAbi {
    abi: String,
}

impl ChainApi {
    pub(crate) fn new(url: &str) -> Self {
        Self {
            // The builder fails only when the system has no usable TLS; plain HTTP then still works.
            client: reqwest::Client::builder()
                .timeout(TIMEOUT)
                .build()
                .unwrap_or_default(),
            url: url.trim_end_matches('/').to_owned(),
            checked_for: None,
            quiet_until: None,
        }
    }

    /// The ABI of a contract as it is today, and the head block at which it was asked. `None` while nobody is asked because of an
    /// earlier failure.
    pub(crate) async fn abi(
        &mut self,
        chain_id: Option<&str>,
        contract: Name,
    ) -> Result<Option<(u32, Vec<u8>)>, FallbackError> {
        if self.quiet_until.is_some_and(|until| Instant::now() < until) {
            return Ok(None);
        }
        let answer = self.ask(chain_id, contract).await;
        self.quiet_until = answer.is_err().then(|| Instant::now() + PAUSE);
        answer.map(Some)
    }

    async fn ask(
        &mut self,
        chain_id: Option<&str>,
        contract: Name,
    ) -> Result<(u32, Vec<u8>), FallbackError> {
        let failed = |cause: String| FallbackError::Call {
            url: self.url.clone(),
            contract,
            cause,
        };
        let info: Info = self
            .post("get_info", serde_json::json!({}))
            .await
            .map_err(failed)?;
        if let Some(expected) = chain_id
            && self.checked_for.as_deref() != Some(expected)
        {
            if info.chain_id != expected {
                return Err(FallbackError::OtherChain {
                    url: self.url.clone(),
                    expected: expected.to_owned(),
                    found: info.chain_id.chars().take(64).collect(),
                });
            }
            self.checked_for = Some(expected.to_owned());
        }
        let failed = |cause: String| FallbackError::Call {
            url: self.url.clone(),
            contract,
            cause,
        };
        let question = serde_json::json!({ "account_name": contract.to_string() });
        let raw: RawAbi = self.post("get_raw_abi", question).await.map_err(failed)?;
        let bytes = LENIENT
            .decode(raw.abi.trim())
            .map_err(|e| failed(format!("not base64: {e}")))?;
        Ok((info.head_block_num, bytes))
    }

    async fn post<T: serde::de::DeserializeOwned>(
        &self,
        call: &str,
        body: serde_json::Value,
    ) -> Result<T, String> {
        let url = format!("{}/v1/chain/{call}", self.url);
        // The address may carry a password; reqwest's errors would show it.
        let plain = |e: reqwest::Error| e.without_url().to_string();
        let mut response = self
            .client
            .post(url)
            .json(&body)
            .send()
            .await
            .map_err(plain)?;
        let status = response.status();
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(plain)? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > ANSWER_BYTES_MAX {
                return Err(format!(
                    "{call}: an answer of more than {ANSWER_BYTES_MAX} bytes"
                ));
            }
        }
        if !status.is_success() {
            return Err(format!("{call}: status {}", status.as_u16()));
        }
        serde_json::from_slice(&bytes).map_err(|e| format!("{call}: {e}"))
    }
}
