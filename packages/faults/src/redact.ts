/**
 * Takes secrets out of text before anybody sees it. Best effort by known shapes: what a provider's key looks like, what
 * stands behind `Authorization:`, what stands between `//` and `@` in a URL. The name of the secret stays, the value goes.
 */

const GONE = '[redacted]'

type Rule = { readonly what: string; readonly pattern: RegExp; readonly by: string }

const rule = (what: string, pattern: RegExp, by: string = GONE): Rule => ({ what, pattern, by })

/** Order matters: whole blocks first, named values next, bare keys by shape last. */
const RULES: readonly Rule[] = [
  rule('private key block', /-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|$)/g),
  rule(
    'authorization header',
    /\b((?:proxy-)?authorization["']?\s*[:=]\s*["']?(?:bearer|basic|token|digest|negotiate)?\s*)[^\s"',;}\]]+/gi,
    `$1${GONE}`,
  ),
  rule('bearer token', /\b(bearer\s+)[A-Za-z0-9._~+/=-]{4,}/gi, `$1${GONE}`),
  rule('basic credentials', /\b(basic\s+)[A-Za-z0-9+/=]{8,}/gi, `$1${GONE}`),
  rule('cookie header', /\b((?:set-)?cookie["']?\s*[:=]\s*["']?)[^\r\n"'}]+/gi, `$1${GONE}`),
  rule('credentials in a URL', /\b([a-z][a-z0-9+.-]{0,30}:\/\/)[^\s/?#"'<>]{1,512}@/gi, `$1${GONE}@`),
  rule(
    'named secret',
    /(["']?\b(?:[\w-]{0,40}[_-])?(?:api[_-]?key|apikey|access[_-]?key(?:[_-]?id)?|secret(?:[_-]?(?:access[_-]?)?key)?|client[_-]?secret|password|passwd|pwd|token|auth[_-]?token|access[_-]?token|refresh[_-]?token|session[_-]?token|x-api-key|x-auth-token|credential|signature|sig)["']?\s*[:=]\s*["']?)(?!\[redacted\])[^\s"'&,;}\]]{4,}/gi,
    `$1${GONE}`,
  ),
  // By shape, as the providers print them: OpenAI and look-alikes, Anthropic, OpenRouter, Google, AWS, GitHub, GitLab, Slack,
  // Hugging Face, Groq, xAI, Perplexity, Replicate, Mistral-style hex behind a name is caught above, npm, Stripe, SendGrid, JWT.
  rule('provider key', /\b(?:sk|rk|pk)[-_][A-Za-z0-9_-]{12,}/g),
  rule('google key', /\bAIza[A-Za-z0-9_-]{20,}/g),
  rule('google token', /\bya29\.[A-Za-z0-9_-]{10,}/g),
  rule('aws key id', /\b(?:AKIA|ASIA|AGPA|AROA)[A-Z0-9]{12,}/g),
  rule('github token', /\b(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{20,})/g),
  rule('gitlab token', /\bglpat-[A-Za-z0-9_-]{16,}/g),
  rule('slack token', /\bxox[abprs]-[A-Za-z0-9-]{10,}/g),
  rule('named prefix key', /\b(?:hf|gsk|xai|pplx|r8|npm|nvapi|csk|fw|tgp_v1|dop_v1|SG)[_.-][A-Za-z0-9_.-]{16,}/g),
  rule('json web token', /\beyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)?/g),
]

/** Longest text that is looked through; the rest is cut off first, since a pattern cannot judge half a secret. */
const INPUT_CHARS_MAX = 64 * 1024

export function redact(text: string): string {
  let out = text.length > INPUT_CHARS_MAX ? text.slice(0, INPUT_CHARS_MAX) : text
  for (const { pattern, by } of RULES) out = out.replace(pattern, by)
  return out
}

/** Redacted, and at most `charsMax` long with the middle marked as left out. Redaction comes first, so a cut never uncovers half a key. */
export function redactBounded(text: string, charsMax: number): string {
  const clean = redact(text)
  if (clean.length <= charsMax) return clean
  const marker = ` …(${clean.length - charsMax} characters left out)… `
  const room = Math.max(0, charsMax - marker.length)
  const head = Math.ceil(room * 0.7)
  return wellFormed(clean.slice(0, head) + marker + clean.slice(clean.length - (room - head))).slice(0, charsMax)
}

/** A cut through a surrogate pair would make the JSON unreadable for strict parsers. */
export function wellFormed(text: string): string {
  return text.isWellFormed() ? text : text.toWellFormed()
}
