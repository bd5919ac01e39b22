/** Secrets in the shapes in which they really occur. All of them are made up; none was ever valid. */
import fc from 'fast-check'

const letters = (alphabet: string, min: number, max = min): fc.Arbitrary<string> =>
  fc
    .array(fc.constantFrom(...alphabet.split('')), { minLength: min, maxLength: max })
    .map((characters) => characters.join(''))

const UPPER = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'
const LOWER = 'abcdefghijklmnopqrstuvwxyz'
const DIGITS = '0123456789'
const ALNUM = UPPER + LOWER + DIGITS
const URL_SAFE = ALNUM + '_-'
const BASE64 = ALNUM + '+/'
const HEX = '0123456789abcdef'

/** `text` is what is printed, `secret` the part that must not be seen. */
export type Planted = { readonly what: string; readonly text: string; readonly secret: string }

const bare = (what: string, prefix: string, body: fc.Arbitrary<string>): fc.Arbitrary<Planted> =>
  // Keys are random; the last two characters add a digit and a capital, which any key of that length has.
  body.map((rest) => ({ what, text: `${prefix}${rest}7Q`, secret: `${rest}7Q` }))

const inside = (what: string, body: fc.Arbitrary<string>, print: (secret: string) => string): fc.Arbitrary<Planted> =>
  body.map((secret) => ({ what, text: print(secret), secret }))

const password = letters(`${ALNUM}!$%^*-_.+~`, 8, 40)
const hex = letters(HEX, 32, 48)

export const SHAPES: Readonly<Record<string, fc.Arbitrary<Planted>>> = {
  openai: bare('OpenAI', 'sk-proj-', letters(URL_SAFE, 40, 120)),
  openaiOld: bare('OpenAI', 'sk-', letters(ALNUM, 46)),
  anthropic: bare('Anthropic', 'sk-ant-api03-', letters(URL_SAFE, 60, 100)),
  openrouter: bare('OpenRouter', 'sk-or-v1-', letters(HEX, 62)),
  google: bare('Google', 'AIza', letters(URL_SAFE, 33)),
  googleToken: bare('Google', 'ya29.', letters(URL_SAFE, 60)),
  awsId: inside('AWS', letters(UPPER + DIGITS, 16), (secret) => `AKIA${secret}`),
  awsSecret: inside('AWS', letters(BASE64, 40), (secret) => `AWS_SECRET_ACCESS_KEY=${secret}`),
  awsSecretJson: inside('AWS', letters(BASE64, 40), (secret) => JSON.stringify({ secretAccessKey: secret })),
  awsSigned: inside(
    'AWS',
    letters(HEX, 64),
    (secret) => `https://b.s3.amazonaws.com/k?X-Amz-Expires=60&X-Amz-Signature=${secret}`,
  ),
  github: bare('GitHub', 'ghp_', letters(ALNUM, 34)),
  githubFine: bare('GitHub', 'github_pat_', letters(ALNUM + '_', 80)),
  gitlab: bare('GitLab', 'glpat-', letters(URL_SAFE, 20)),
  slack: bare('Slack', 'xoxb-', letters(ALNUM + '-', 40)),
  huggingFace: bare('Hugging Face', 'hf_', letters(ALNUM, 32)),
  groq: bare('Groq', 'gsk_', letters(ALNUM, 50)),
  xai: bare('xAI', 'xai-', letters(ALNUM, 78)),
  mistral: inside('Mistral', hex, (secret) => `MISTRAL_API_KEY=${secret}`),
  deepseek: inside('DeepSeek', hex, (secret) => `"deepseekApiKey": "${secret}"`),
  jwt: fc
    .tuple(letters(URL_SAFE, 20, 60), letters(URL_SAFE, 20, 200), letters(URL_SAFE, 43))
    .map(([a, b, c]) => ({ what: 'JWT', text: `eyJ${a}.${b}.${c}`, secret: b })),
  bearer: inside('bearer', letters(`${ALNUM}._~+/-`, 16, 60), (secret) => `Authorization: Bearer ${secret}`),
  bearerAlone: inside('bearer', letters(ALNUM, 16, 60), (secret) => `sent bearer ${secret} to the server`),
  bearerEncoded: inside('bearer', letters(ALNUM, 16, 60), (secret) => `Bearer%20${secret}`),
  basic: inside(
    'basic',
    password,
    (secret) => `authorization: Basic ${Buffer.from(`u:${secret}`).toString('base64')}`,
  ).map((planted) => ({ ...planted, secret: planted.text.slice('authorization: Basic '.length) })),
  customScheme: inside('scheme', letters(ALNUM, 12, 30), (secret) => `Authorization: Hawk ${secret}`),
  rawHeaders: inside('raw headers', hex, (secret) => JSON.stringify(['x-api-key', secret, 'accept', '*/*'])),
  headerRecord: inside('headers', hex, (secret) => JSON.stringify({ 'x-goog-api-key': [secret] })),
  headerMap: inside('headers', hex, (secret) => `Map(1) { 'api-key' => '${secret}' }`),
  cookie: inside('cookie', letters(URL_SAFE, 12, 60), (secret) => `Cookie: theme=dark; session="${secret}"; lang=en`),
  setCookie: inside('cookie', letters(URL_SAFE, 12, 60), (secret) =>
    JSON.stringify({ 'set-cookie': ['a=b; Path=/', `sid=${secret}`] }),
  ),
  urlPassword: inside('URL', password, (secret) => `postgres://breakfall:${secret}@db.test:5432/runs`),
  urlSlash: inside('URL', letters(ALNUM, 6, 12), (secret) => `postgres://breakfall:a/${secret}@db.test:5432/runs`),
  urlUser: inside('URL', letters(ALNUM, 20), (secret) => `https://${secret}@git.test/x.git`),
  queryApiKey: inside('query', hex, (secret) => `GET /v1/models?api_key=${secret}&x=1`),
  queryKey: inside('query', hex, (secret) => `https://g.test/v1beta/models?key=${secret}`),
  queryToken: inside('query', hex, (secret) => `wss://g.test/ws?v=1&token=${secret}`),
  json: inside('JSON', password, (secret) => JSON.stringify({ apiKey: secret, model: 'm' })),
  jsonBlank: inside('JSON', letters(`${ALNUM} `, 12, 30), (secret) => JSON.stringify({ password: secret })).filter(
    ({ secret }) => secret.trim().length > 8,
  ),
  jsonTwice: inside('JSON in JSON', hex, (secret) => JSON.stringify(JSON.stringify({ client_secret: secret }))),
  camel: inside('camel case', hex, (secret) => `{ openaiApiKey: '${secret}', dbPassword: '${secret}' }`),
  pem: letters(BASE64, 200, 900).map((body) => ({
    what: 'PEM',
    text: `-----BEGIN EC PRIVATE KEY-----\n${body.replace(/(.{64})/g, '$1\n')}\n-----END EC PRIVATE KEY-----`,
    secret: body.slice(0, 60),
  })),
  pemEscaped: letters(BASE64, 200, 900).map((body) => ({
    what: 'PEM in JSON',
    text: JSON.stringify({ private_key: `-----BEGIN PRIVATE KEY-----\n${body}\n-----END PRIVATE KEY-----\n` }),
    secret: body,
  })),
}

export const planted: fc.Arbitrary<Planted> = fc.oneof(...Object.values(SHAPES))

/** Harmless text, of letters that do not extend a secret next to it. */
export const filler = (max: number): fc.Arbitrary<string> =>
  fc
    .array(fc.constantFrom('the', 'request', 'failed', 'at', 'line', '12', 'with', 'status', '502', '\n', '—', 'ü'), {
      maxLength: max,
    })
    .map((words) => words.join(' '))

/** No run of 8 characters of the secret is left: half a key is a leak too. */
export function leaks(text: string, secret: string): string | undefined {
  for (let at = 0; at + 8 <= secret.length; at += 1) {
    const part = secret.slice(at, at + 8)
    if (text.includes(part)) return part
  }
  return undefined
}
