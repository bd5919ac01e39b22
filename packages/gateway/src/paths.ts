/**
 * Which requests the gateway heals, and what their paths mean. One rule for all providers: a path is a prefix and a tail, and the tail
 * names the API. Pure.
 *
 * I1  A floating tail (OpenAI's, Anthropic's) works under any prefix in `PREFIXES`. A rooted path says more than which API it is
 *     (the model, a project), so all of it goes to the upstream.
 * I2  Usual mistakes in base URLs are forgiven: a trailing slash, and `/v1` twice.
 */
import type { RelayApiName } from '@breakfall/model'
import type { PathPlace } from '@breakfall/model/internal'

/** A request for an answer, in an API that the gateway heals. */
export type ModelRoute = {
  readonly api: RelayApiName
  readonly place: PathPlace
  /** Where the path says whether the answer is streamed; else the body does. */
  readonly stream?: boolean | undefined
}

/** The path as the client meant it. */
export function normalised(path: string): string {
  const once = path.replace(BASE, '/v1/')
  const bare = once.replace(/(?<!\/)\/+$/, '').replace(/^\/+/, '/')
  return modelRoute(bare) === undefined ? once : bare // I2
}

/** What a POST to this path asks for; undefined if the gateway does not heal it. */
export function modelRoute(path: string): ModelRoute | undefined {
  const place = placeOf(path)
  if (place.tail !== undefined) {
    const api = Object.hasOwn(TAILS, place.tail) ? TAILS[place.tail] : undefined
    return api === undefined ? undefined : { api, place }
  }
  const rooted = ROOTED.find(({ pattern, verbs }) => Object.hasOwn(verbs, pattern.exec(path)?.[1] ?? ''))
  if (rooted === undefined) return undefined
  return { api: rooted.api, place, stream: rooted.verbs[rooted.pattern.exec(path)?.[1] ?? ''] }
}

export function placeOf(path: string): PathPlace {
  const prefix = ROOTS.test(path) ? undefined : PREFIXES.exec(path)?.[0]
  if (prefix !== undefined) return { path, tail: path.slice(prefix.length + 1) }
  return BARE.test(path) ? { path, tail: path.slice(1) } : { path }
}

/** The API of a POST that carries a conversation and asks for no answer. Servers check the conversation all the same. */
export function historyApi(path: string): RelayApiName | undefined {
  const { tail = '' } = placeOf(path)
  return Object.hasOwn(WITH_HISTORY, tail) ? WITH_HISTORY[tail] : undefined
}

/** A path that some servers take for a route of a model: they decode it, ignore cases, or skip an empty segment. */
export function isLikeModelRoute(path: string): boolean {
  const plain = (decoded(path) ?? path).toLowerCase().replaceAll(/\/+/g, '/').replace(/\/$/, '')
  const isVerb = ({ pattern, verbs }: Rooted): boolean =>
    Object.keys(verbs).some((verb) => verb.toLowerCase() === pattern.exec(plain)?.[1])
  return modelRoute(normalised(plain)) !== undefined || ROOTED.some(isVerb)
}

/** A path that asks a model for something, healed or not: where the body does not name a model, this shows it. */
export const asksModel = (path: string): boolean =>
  modelRoute(path) !== undefined || ASKS_MODEL.test(decoded(path) ?? path)

/** Whether the gateway serves this path at all. */
export const isServed = (path: string): boolean => ROOTS.test(path) || PREFIXES.test(`${path}/`) || BARE.test(path)

/**
 * What is wrong with a path that servers read in different ways: a server that decodes it once more, or drops what follows a semicolon,
 * would find a route that the gateway never saw. Undefined if every server reads the same.
 */
export function ambiguityIn(path: string): string | undefined {
  for (const segment of path.split('/')) {
    const plain = decoded(segment)
    if (plain === undefined) return 'an invalid percent escape'
    if (/[\\;]/.test(plain)) return 'a backslash or a semicolon'
    if (/%[0-9a-f]{2}/i.test(plain)) return 'a percent escape that is escaped itself'
    if (/[\p{Cc}]/u.test(plain)) return 'a control character'
    if (plain.split('/').some((part) => part === '.' || part === '..')) return 'a dot segment'
  }
  return undefined
}

/** The API whose error shape a client at this path understands. */
export function errorApi(path: string): RelayApiName {
  const { tail } = placeOf(path)
  const healed = modelRoute(path)?.api
  if (healed !== undefined) return healed
  if (tail !== undefined) return /^messages(?:\/|$)/.test(tail) ? 'anthropic-messages' : 'openai-chat'
  return ERRORS.find(([root]) => root.test(path))?.[1] ?? 'openai-chat'
}

// ---- details ----

function decoded(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment)
  } catch {
    return undefined
  }
}

/** I1 */
const TAILS: Readonly<Record<string, RelayApiName>> = {
  'chat/completions': 'openai-chat',
  responses: 'openai-responses',
  messages: 'anthropic-messages',
}

/** OpenAI and most others; Azure; OpenRouter; Gemini's OpenAI route; Claude on Foundry and Bedrock; ChatGPT. */
const PREFIXES = /^\/(?:v1|openai\/v1|openai|api\/v1|v1beta\/openai|anthropic\/v1|anthropic|backend-api\/codex)(?=\/)/

/** Without a prefix, as GitHub Copilot has them. */
const BARE = /^\/(?:chat\/completions|responses|messages|models|embeddings)(?:\/|$)/

/** What is not floating, though some of it starts with one of the prefixes. */
const ROOTS = new RegExp(
  [
    String.raw`^/v1(?:alpha|beta)\d*/(?!openai/)`, // Gemini, Vertex AI
    String.raw`^/v1/(?:projects|publishers)/`,
    String.raw`^/v1/(?:tunedM|m)odels/[^/]+:(?:streamG|g)enerateContent$`,
    String.raw`^/(?:openai/deployments|v1/engines)/`,
    String.raw`^/model/`, // Bedrock
    String.raw`^/api/(?!v\d)`, // Ollama
    String.raw`^/v1internal:`, // Gemini Code Assist
  ].join('|'),
)

type Rooted = {
  /** Its group is the verb. Ignores cases, as some servers do. */
  readonly pattern: RegExp
  readonly api: RelayApiName
  /** Whether each verb streams; undefined where the body says it. */
  readonly verbs: Readonly<Record<string, boolean | undefined>>
}

const GENERATE = { generateContent: false, streamGenerateContent: true } as const
const CHAT = { 'chat/completions': undefined } as const

const ROOTED: readonly Rooted[] = [
  {
    pattern: /^\/v1\w*\/(?:(?:.+\/)?publishers\/google\/)?(?:tunedM|m)odels\/[^/:]+:(\w+)$/i,
    api: 'gemini',
    verbs: GENERATE,
  },
  {
    pattern: /^\/v1\w*\/(?:.+\/)?publishers\/anthropic\/models\/(?!count-tokens:)[^/:]+:(\w+)$/i,
    api: 'anthropic-messages',
    verbs: { rawPredict: false, streamRawPredict: true },
  },
  { pattern: /^\/v1\w*\/projects\/.+\/endpoints\/[^/]+\/(chat\/completions)$/i, api: 'openai-chat', verbs: CHAT },
  { pattern: /^\/(?:openai\/deployments|v1\/engines)\/[^/]+\/(chat\/completions)$/i, api: 'openai-chat', verbs: CHAT },
  {
    pattern: /^\/model\/.+\/([\w-]+)$/i,
    api: 'bedrock-messages',
    verbs: { invoke: false, 'invoke-with-response-stream': true },
  },
  { pattern: /^\/api\/(\w+)$/i, api: 'ollama', verbs: { chat: undefined, generate: undefined } },
]

/** What is not healed and yet asks for an answer. */
const ASKS_MODEL =
  /(?<!\/count-tokens):(?:stream)?(?:generateContent|rawPredict)$|^\/model\/.+\/(?:invoke|invoke-with-response-stream|converse|converse-stream)$|\/(?:completions|interactions)$/i

const ERRORS: readonly (readonly [root: RegExp, api: RelayApiName])[] = [
  [/^\/v1\w*\/.*publishers\/anthropic\//, 'anthropic-messages'],
  [/^\/v1(?:internal|beta\d*|alpha)[/:]|^\/v1\/(?:projects|publishers)\//, 'gemini'],
  [/^\/model\//, 'bedrock-messages'],
  [/^\/api\//, 'ollama'],
]

const WITH_HISTORY: Readonly<Record<string, RelayApiName>> = {
  'messages/count_tokens': 'anthropic-messages',
  'responses/compact': 'openai-responses',
  'responses/input_tokens': 'openai-responses',
}

/** `/v1//messages`, `/v1/v1/messages`, `//v1/messages`. */
const BASE = /^\/+v1\/+(?:v1\/+)*/
