//! Sizes of a model, and what follows from them.

/// A Llama-style model: attention with grouped queries, a gated MLP, RMSNorm, rotary positions.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Config {
    pub name: &'static str,
    pub layers: usize,
    pub hidden: u32,
    /// Query heads, and heads of keys and values, which divide them.
    pub heads: u32,
    pub kv_heads: u32,
    /// Elements of a head.
    pub dim: u32,
    pub mlp: u32,
    pub vocab: u32,
    pub eps: f32,
    pub theta: f64,
    /// Tokens of a page of the cache.
    pub page: u32,
    /// Keys of a step of attention, of a prompt and of decode; both divide a page.
    pub steps: [u32; 2],
}

impl Config {
    /// Small enough for the simulator: two layers, grouped queries, pages of 16.
    pub fn tiny() -> Config {
        Config {
            name: "tiny",
            layers: 2,
            hidden: 64,
            heads: 4,
            kv_heads: 2,
            dim: 16,
            mlp: 192,
            vocab: 256,
            eps: 1e-5,
            theta: 10000.0,
            page: 16,
            steps: [16, 16],
        }
    }

    /// Deep enough for products in parts: one layer.
    pub fn wide() -> Config {
        Config { name: "wide", layers: 1, hidden: 512, heads: 8, dim: 64, mlp: 1024, ..Config::tiny() }
    }

    /// Odd numbers of everything that may be odd.
    pub fn medium() -> Config {
        Config {
            name: "medium",
            layers: 3,
            hidden: 640,
            heads: 12,
            kv_heads: 4,
            dim: 64,
            mlp: 1720,
            vocab: 5000,
            page: 64,
            steps: [64, 64],
            ..Config::tiny()
        }
    }

    /// Heads, groups and pages as Llama 3 has them, and little else.
    pub fn heads() -> Config {
        Config {
            name: "heads",
            layers: 1,
            hidden: 512,
            heads: 8,
            kv_heads: 2,
            dim: 128,
            mlp: 768,
            page: 128,
            steps: [128, 64],
            ..Config::tiny()
        }
    }

    /// Llama 3 8B.
    pub fn llama3_8b(layers: usize) -> Config {
        Config {
            name: "llama3-8b",
            layers,
            hidden: 4096,
            heads: 32,
            kv_heads: 8,
            dim: 128,
            mlp: 14336,
            vocab: 128_256,
            eps: 1e-5,
            theta: 500_000.0,
            page: 128,
            steps: [128, 64],
        }
    }

    /// Query heads that share a head of keys and values.
    pub fn group(&self) -> u32 {
        self.heads / self.kv_heads
    }

    /// Rows of the joined weights of queries, keys and values, as heads.
    pub fn joined_heads(&self) -> u32 {
        self.heads + 2 * self.kv_heads
    }

    /// Tokens of a program of attention over a prompt: with the heads of a group they are 128 rows, or fewer where sizes are small.
    pub fn block(&self) -> u32 {
        let rows = if self.dim >= 64 { 128 } else { 32 };
        (rows / self.group().next_power_of_two()).max(1)
    }

    /// Bytes of a layer's weights.
    pub fn layer_bytes(&self) -> u64 {
        let [h, d, mlp] = [self.hidden, self.dim, self.mlp].map(u64::from);
        let (q, all) = (u64::from(self.heads) * d, u64::from(self.joined_heads()) * d);
        2 * (h * all + q * h + 3 * h * mlp + 2 * h)
    }

    /// Bytes that a token of a layer's cache has.
    pub fn token_bytes(&self) -> u64 {
        4 * u64::from(self.kv_heads) * u64::from(self.dim)
    }

    /// Operations of a layer's products for a token.
    pub fn token_operations(&self) -> u64 {
        self.layer_bytes() - 4 * u64::from(self.hidden)
    }
}
