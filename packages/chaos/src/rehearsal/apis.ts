/** The model APIs that the rehearsal model speaks: one row each. Pure: a request's path and body in, its answer out. */
import { isObject } from '@breakfall/faults/internal'
import { type Dialect } from '../dialect.ts'
import { anthropicBody, anthropicEvents } from './anthropic.ts'
import { fromAnthropic, fromGemini, fromOpenAi, fromResponses, type Message } from './conversation.ts'
import { geminiBody, geminiEvents } from './gemini.ts'
import { openAiBody, openAiEvents } from './openai.ts'
import { responsesBody, responsesEvents } from './responses.ts'
import type { Answer } from './script.ts'

type Json = Readonly<Record<string, unknown>>

/** A tool that a client offers, with the JSON schema of its arguments. */
export type OfferedTool = { readonly name: string; readonly schema: Json }

export type Api = {
  readonly dialect: Dialect
  /** As Breakfall's configuration calls it. */
  readonly name: 'openai-chat' | 'openai-responses' | 'anthropic-messages' | 'gemini'
  readonly path: RegExp
  model(body: Json, path: string): string
  isStream(body: Json, path: string): boolean
  /** Throws a TypeError with a readable message. */
  conversation(body: Json): Message[]
  /** Null if the client sent no list. */
  tools(body: Json): OfferedTool[] | null
  events(answer: Answer, model: string, body: Json): Iterable<string>
  body(answer: Answer, model: string): string
}

const modelField = (body: Json): string => (typeof body['model'] === 'string' ? body['model'] : 'rehearsal')
const streamField = (body: Json): boolean => body['stream'] === true

const APIS: readonly Api[] = [
  {
    dialect: 'openai',
    name: 'openai-chat',
    path: /^\/v1\/chat\/completions$/,
    model: modelField,
    isStream: streamField,
    conversation: (body) => fromOpenAi(body['messages']),
    tools: (body) => toolsFrom(body['tools'], (tool) => (isObject(tool['function']) ? tool['function'] : tool)),
    events: (answer, model, { stream_options: options }) =>
      openAiEvents(answer, model, isObject(options) && options['include_usage'] === true),
    body: openAiBody,
  },
  {
    dialect: 'responses',
    name: 'openai-responses',
    path: /^\/v1\/responses$/,
    model: modelField,
    isStream: streamField,
    conversation: (body) => fromResponses(body['input'], body['instructions']),
    tools: (body) => toolsFrom(body['tools'], (tool) => tool),
    events: responsesEvents,
    body: responsesBody,
  },
  {
    dialect: 'anthropic',
    name: 'anthropic-messages',
    path: /^\/v1\/messages$/,
    model: modelField,
    isStream: streamField,
    conversation: (body) => fromAnthropic(body['messages'], body['system']),
    tools: (body) => toolsFrom(body['tools'], (tool) => tool),
    events: anthropicEvents,
    body: anthropicBody,
  },
  {
    dialect: 'gemini',
    name: 'gemini',
    path: /^\/v1beta\/models\/[^:]+:(?:streamGenerateContent|generateContent)$/,
    model: (_body, path) => decodeURIComponent(/models\/([^:]+):/.exec(path)?.[1] ?? 'rehearsal'),
    isStream: (_body, path) => path.endsWith(':streamGenerateContent'),
    conversation: (body) => fromGemini(body['contents'], body['systemInstruction']),
    tools: (body) => {
      const groups: unknown[] = Array.isArray(body['tools']) ? body['tools'] : []
      const declared = groups.flatMap((group) => (isObject(group) ? listOf(group['functionDeclarations']) : []))
      return body['tools'] === undefined ? null : toolsFrom(declared, (tool) => tool)
    },
    events: geminiEvents,
    body: geminiBody,
  },
]

export const apiFor = (path: string): Api | undefined => APIS.find((api) => api.path.test(path))

// ---- details ----

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

function toolsFrom(tools: unknown, declaration: (tool: Json) => Json): OfferedTool[] | null {
  if (!Array.isArray(tools)) return null
  return listOf(tools)
    .filter(isObject)
    .map((tool) => {
      const declared = declaration(tool)
      const schema = declared['parameters'] ?? declared['input_schema'] ?? declared['parametersJsonSchema']
      return { name: String(declared['name']), schema: isObject(schema) ? schema : {} }
    })
}
