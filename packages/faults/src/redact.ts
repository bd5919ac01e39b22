/**
 * Removes secrets from text before it is shown or stored. Best effort, by known shapes: a provider's key, the value after
 * `Authorization:`, the part between `//` and `@` in a URL. The name of the secret stays, the value is replaced.
 *
 * I1  Redact first, then cut, and cut between words: half a secret matches neither a pattern nor a known value.
 * I2  Redacting twice changes nothing: reports are rebuilt whenever more is known about them.
 * I3  Work is linear in the text: every repetition is bounded, or cannot fail once it has matched.
 */

import { cutEnd, cutStart } from './cut.ts'

const GONE = '[redacted]'

/** Longest text that is searched; the rest is dropped. */
const INPUT_CHARS_MAX = 64 * 1024

/** How far back from that end to look for a safe place to cut: longer than any key except a block, which has its own rule. */
const CUT_CHARS_MAX = 8 * 1024

export function redact(text: string): string {
  let out = wellFormed(lookedAt(text))
  for (const { pattern, by } of RULES) out = out.replace(pattern, by)
  return out
}

/** Redacted, and at most `charsMax` long: a mark replaces the middle. */
export function redactBounded(text: string, charsMax: number): string {
  const clean = redact(text)
  if (clean.length <= charsMax) return clean
  const whole = clean.length + text.length - lookedAt(text).length
  const room = Math.max(0, charsMax - leftOut(whole).length)
  const head = cutStart(clean, Math.ceil(room * 0.7))
  const tail = cutEnd(clean, Math.floor(room * 0.3))
  return wellFormed(head + leftOut(whole - head.length - tail.length) + tail).slice(0, charsMax)
}

/** Redacted, and cut to its start. */
export function redactStart(text: string, charsMax: number): string {
  const clean = redact(text)
  return clean.length <= charsMax ? clean : wellFormed(cutStart(clean, charsMax - 1)) + '…'
}

// ---- details ----

const leftOut = (chars: number): string => ` …(${chars} characters left out)… `

const lookedAt = (text: string): string => (text.length > INPUT_CHARS_MAX ? cutBetweenWords(text) : text)

type Rule = { readonly what: string; readonly pattern: RegExp; readonly by: string }

const rule = (what: string, source: string, flags: 'g' | 'gi', by: string = GONE): Rule => ({
  what,
  pattern: new RegExp(source, flags),
  by,
})

/** Not inside a word. The `n` of an escaped line break before a key does not count as part of the word. */
const START = String.raw`(?<!(?<!\\)[A-Za-z])`

/** Between a name and its value: `: `, `=`, `":"`, `\":\"`, `=>`, `%3D`, or `","` as in a list of raw headers. */
const BETWEEN = String.raw`(?:(?:\\{0,8}["'])?\s{0,20}(?:=>|[:=]|%3[AaDd])|\\{0,8}["']\s{0,20},(?=\s{0,20}\\{0,8}["']))\s{0,20}`

/** What may open a value: an array, a quote, an escaped quote. Kept. */
const OPENING = String.raw`(?:\[\s{0,20})?(?:\\{0,8}["'])?`

/** After the opening: a whole array, a quoted value including its blanks, or a bare word. */
const IN_QUOTES = String.raw`(?<=\[\s{0,20}\\{0,8}["'])[^\]\r\n]+|(?<=\\["'])[^"'\\\r\n]+|(?<=")(?:[^"\\\r\n]|\\.)+|(?<=')(?:[^'\\\r\n]|\\.)+`
const BARE = String.raw`[^\s"'&,;}\])\\[]{4,}`
const GONE_ALREADY = String.raw`${OPENING}\[redacted\]`

/** Words that prose or JSON has in place of a secret. */
const PLAIN = String.raw`(?:null|true|false|undefined|none|required|missing|invalid|expired|must|cannot|should|incorrect|TOKEN)(?![\w~+/=-]|\.\w)`

const SECRET_NAME = String.raw`(?:api[ _-]?key|access[_-]?key(?:[_-]?id)?|(?:secret|private)[_-]?(?:access[_-]?)?key|secret|passw(?:or)?d|passphrase|pwd(?!\s{0,4}[:=]\s{0,4}["']?\/)|(?<!unexpected )token|credential|["']sig(?:nature)?(?=\\{0,8}["']))(?:[_-]?(?:value|hash))?`

const QUERY_NAME = String.raw`(?:key|auth|session|jwt|sas|(?:[\w.-]{0,40}[_.-])?(?:api_?key|token|sig|signature|secret|credential|passw(?:or)?d|pwd)|\w{0,20}token)`

/** As the providers print them. A digit or a capital distinguishes a key from a name with hyphens. */
const KEY_SHAPES: readonly string[] = [
  String.raw`(?:sk|rk|pk)[-_](?=[a-z_-]{0,80}[0-9A-Z])[A-Za-z0-9_-]{16,}`, // OpenAI, Anthropic, OpenRouter, DeepSeek, Stripe
  String.raw`AIza[A-Za-z0-9_-]{20,}`, // Google
  String.raw`ya29\.[A-Za-z0-9_-]{10,}`, // Google
  String.raw`(?:AKIA|ASIA|AGPA|AROA)[A-Z0-9]{12,}`, // AWS
  String.raw`gh[pousr]_[A-Za-z0-9]{16,}`, // GitHub
  String.raw`github_pat_[A-Za-z0-9_]{20,}`,
  String.raw`gl[a-z]{2,6}-[A-Za-z0-9_-]{16,}`, // GitLab
  String.raw`(?:xox[a-z]|xapp)-[A-Za-z0-9-]{10,}`, // Slack
  // Hugging Face, Groq, xAI, Perplexity, Replicate, npm, NVIDIA, Cerebras, Fireworks, Together, SendGrid
  String.raw`(?:hf_|gsk_|xai-|pplx-|r8_|npm_|nvapi-|csk-|fw_|tgp_v1_|dop_v1_|SG\.)(?=[a-z_.-]{0,80}[0-9A-Z])[A-Za-z0-9_.-]{16,}`,
  // JSON web tokens. The second and third part are optional, to catch a token that was cut short upstream.
  String.raw`eyJ[A-Za-z0-9_-]{12,}(?:\.[A-Za-z0-9_-]*){0,4}`,
]

/** Order matters: whole blocks first, named values next, bare keys by shape last. */
const RULES: readonly Rule[] = [
  rule(
    'private key block',
    String.raw`-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|$)`,
    'g',
  ),
  rule(
    'authorization header',
    String.raw`${START}((?:proxy-)?authorization${BETWEEN}(?!${OPENING}(?:[A-Za-z-]{3,20}[ \t]{1,4})?(?:\[redacted\]|TOKEN(?![\w-])))${OPENING}(?:(?:bearer|basic|token|digest|negotiate|apikey)[ \t]{1,4})?)(?:[A-Za-z-]{3,20}[ \t]{1,4}(?=[^\s[]))?[^\s"'\\,;}\]]+`,
    'gi',
    `$1${GONE}`,
  ),
  rule(
    'bearer token',
    String.raw`${START}(bearer(?:\s{1,20}|%20|\+))(?!(?:${PLAIN}|(?:tokens?|auth|authentication|authorization|scheme|credentials?|header|with|from|that|this|keys?)(?![\w~+/=-]|\.\w)|(?:realm|scope|error|error_description)=["'\\]))[A-Za-z0-9._~+/=-]{4,}`,
    'gi',
    `$1${GONE}`,
  ),
  // Base64 has a digit, padding or mixed case within its first characters; "basic understanding" does not.
  rule(
    'basic credentials',
    String.raw`${START}([Bb]asic(?:\s{1,20}|%20))(?=[A-Za-z+/]{0,300}(?:[0-9=]|[a-z][A-Z]))[A-Za-z0-9+/]{6,}={0,2}`,
    'g',
    `$1${GONE}`,
  ),
  rule(
    'cookie header',
    String.raw`${START}((?:set-)?cookies?${BETWEEN}(?!${GONE_ALREADY})${OPENING})(?:${IN_QUOTES}|[^\s"'\\[][^\r\n]*)`,
    'gi',
    `$1${GONE}`,
  ),
  // The second form is a password with an unescaped slash; digits up to a slash are a port.
  rule(
    'credentials in a URL',
    String.raw`(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{0,30}:(?:\\?\/){2})(?!\[redacted\]@)(?:[^\s/?#"'<>\\]{1,1024}|[^\s/?#@:"'<>\\[]{0,256}:(?!\d{1,5}[/?#])[^\s"'<>]{1,512})@`,
    'gi',
    `$1${GONE}@`,
  ),
  rule(
    'query parameter',
    String.raw`((?:[?&;]|\\u0026|%26|%3F)${QUERY_NAME}(?:=|%3D))(?!\[redacted\])[^\s&#"'<>\\;,)}\]]+`,
    'gi',
    `$1${GONE}`,
  ),
  rule(
    'named secret',
    String.raw`(${SECRET_NAME}${BETWEEN}(?!${GONE_ALREADY}|${OPENING}${PLAIN})${OPENING})(?:${IN_QUOTES}|${BARE})`,
    'gi',
    `$1${GONE}`,
  ),
  rule('slack webhook', String.raw`(hooks\.slack\.com\/services\/)[A-Za-z0-9/]{8,}`, 'g', `$1${GONE}`),
  // One pattern for all: the key that starts first is removed whole, even if it contains what looks like another key.
  rule('key', `${START}(?:${KEY_SHAPES.join('|')})`, 'g'),
]

/** I1 for a text that is too long to search: cuts at the last blank, so no value is halved. */
function cutBetweenWords(text: string): string {
  const longest = text.slice(0, INPUT_CHARS_MAX)
  const blank = /\s\S*$/.exec(longest.slice(-CUT_CHARS_MAX))
  return longest.slice(0, INPUT_CHARS_MAX - CUT_CHARS_MAX + (blank === null ? 0 : blank.index))
}

/** Strict JSON parsers reject half a surrogate pair. */
function wellFormed(text: string): string {
  return text.isWellFormed() ? text : text.toWellFormed()
}
