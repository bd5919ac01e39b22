/**
 * Recognises a tool call that a model wrote into its text, because its server did not parse it. Only recognises: such a text is never
 * parsed to be run, since it may be quoted from a file. Pure.
 *
 * I1  The text ends with a closed envelope, or is nothing but bare JSON. Before an envelope there may be a sentence, but neither an open
 *     code fence nor a quote.
 * I2  Every name in it is a tool that was offered, and the arguments are an object.
 */
import { isObject, parsedOr } from '../lib/json.ts'

export type LeakedCall = {
  readonly name: string
  /** A request in which this occurs may be about such texts. */
  readonly marker: RegExp
}

export function leakedCall(text: string, isOffered: (name: string) => boolean): LeakedCall | undefined {
  const trimmed = text.trim()
  for (const { open, close, read } of ENVELOPES) {
    if (!trimmed.endsWith(close)) continue
    const start = open === '' ? 0 : trimmed.indexOf(open)
    if (start === -1 || !isPlain(trimmed.slice(0, start))) continue // I1
    const inside = trimmed.slice(start + open.length, trimmed.length - close.length)
    const parts = close === '' || open === '' ? [inside] : inside.split(close).map((part) => part.replace(open, ''))
    const names = parts.map((part) => read(part.trim()))
    if (!names.every((found) => found !== undefined && found.length > 0 && found.every(isOffered))) continue // I2
    const name = names[0]?.[0] ?? ''
    return { name, marker: open === '' ? new RegExp(`"name"\\s*:\\s*"${escaped(name)}"`) : new RegExp(escaped(open)) }
  }
  return undefined
}

// ---- details ----

type Envelope = {
  readonly open: string
  readonly close: string
  /** The names of the calls in it; undefined if it holds anything else. */
  readonly read: (inside: string) => readonly string[] | undefined
}

const PROSE_CHARS_MAX = 500

/** Nothing, or a sentence: not a code fence that is open, and no quote that begins. */
const isPlain = (before: string): boolean =>
  before.length <= PROSE_CHARS_MAX && before.split('```').length % 2 === 1 && !/[`"'“‘«>|]\s*$/.test(before)

/** `{"name":…,"arguments":{…}}`, one or several, with nothing else in them. */
function objects(text: string): readonly string[] | undefined {
  const whole = parsedOr(text)
  const list = Array.isArray(whole) ? whole : isObject(whole) ? [whole] : lines(text)
  const names = list.map((call) => (isObject(call) ? nameOf(call) : undefined))
  return names.every((name) => name !== undefined) ? names : undefined
}

/** Several objects, one on each line or with a semicolon between them. */
const lines = (text: string): readonly unknown[] => text.split(/\s*[\n;]\s*(?=\{)/).map(parsedOr)

function nameOf(call: Readonly<Record<string, unknown>>): string | undefined {
  const { name, arguments: given, parameters, id: _id, type: _type, ...more } = call
  const isCall = typeof name === 'string' && Object.keys(more).length === 0 && isObject(given ?? parameters)
  return isCall && (given === undefined || parameters === undefined) ? name : undefined
}

/** The names that `pattern` finds, if it describes all of the text. Its first group is the name, its second, if any, a JSON object. */
const all =
  (pattern: RegExp) =>
  (text: string): readonly string[] | undefined => {
    const names: string[] = []
    let at = 0
    for (const found of text.matchAll(pattern)) {
      const [whole, name = '', json] = found
      if (text.slice(at, found.index).trim() !== '' || (json !== undefined && !isObject(parsedOr(json))))
        return undefined
      names.push(name)
      at = found.index + whole.length
    }
    return text.slice(at).trim() === '' ? names : undefined
  }

const INVOKE = all(
  /<(?:｜DSML｜)?invoke name="([^"<>]+)">(?:\s*<(?:｜DSML｜)?parameter name="[^"<>]+"[^<>]*>[^]*?<\/(?:｜DSML｜)?parameter>)*\s*<\/(?:｜DSML｜)?invoke>/g,
)
const FUNCTION = all(/<function=([^<>]+)>(?:\s*<parameter=[^<>]+>[^]*?<\/parameter>)*\s*<\/function>/g)
const GLM = all(/([\w.-]+)\s*(?:<arg_key>[^<]*<\/arg_key>\s*<arg_value>[^]*?<\/arg_value>\s*)*/g)
const PYTHON = all(/(?<=^\[|,\s*)([A-Za-z_][\w.]*)\((?:\s*\w+\s*=\s*[^]*?)?\)(?=\s*(?:,|\]$))|^\[|,|\]$/g)

/** `[f(a='x'), g()]` */
const python = (text: string): readonly string[] | undefined =>
  text.startsWith('[') && text.endsWith(']') ? PYTHON(text)?.filter((name) => name !== '') : undefined

const either =
  (...ways: readonly Envelope['read'][]): Envelope['read'] =>
  (text) =>
    ways.map((read) => read(text)).find((names) => names !== undefined && names.length > 0)

const ENVELOPES: readonly Envelope[] = [
  { open: '<tool_call>', close: '</tool_call>', read: either(objects, FUNCTION, GLM) }, // Hermes, Qwen, Nemotron, GLM
  { open: '', close: '</tool_call>', read: objects }, // the template had opened it
  { open: '<|python_tag|>', close: '', read: objects }, // Llama 3
  { open: '<|python_start|>', close: '<|python_end|>', read: python }, // Llama 4
  {
    open: '[TOOL_CALLS]',
    close: '',
    read: either(objects, all(/(?:\[TOOL_CALLS\])?([\w.-]+)\[ARGS\](\{[^]*?\})(?=\[TOOL_CALLS\]|$)/g)),
  }, // Mistral
  {
    open: '<｜tool▁calls▁begin｜>', // DeepSeek
    close: '<｜tool▁calls▁end｜>',
    read: either(
      all(
        /<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>)?([\w.-]+)\s*```json\s*(\{[^]*?\})\s*```\s*<｜tool▁call▁end｜>/g,
      ),
      all(/<｜tool▁call▁begin｜>([\w.-]+)<｜tool▁sep｜>(\{[^]*?\})<｜tool▁call▁end｜>/g),
    ),
  },
  { open: '<｜DSML｜function_calls>', close: '</｜DSML｜function_calls>', read: INVOKE },
  {
    open: '<|channel|>commentary', // gpt-oss
    close: '<|call|>',
    read: all(/^\s*to=functions\.([\w.-]+)[^{}]*<\|message\|>(\{[^]*\})$/g),
  },
  {
    open: 'commentary to=functions.',
    close: '',
    read: all(/^([\w.-]+)\s*(?:json|<\|constrain\|>json)?\s*(\{[^]*\})$/g),
  },
  {
    open: '<|tool_calls_section_begin|>', // Kimi
    close: '<|tool_calls_section_end|>',
    read: all(
      /<\|tool_call_begin\|>\s*functions\.([\w.-]+):\d+\s*<\|tool_call_argument_begin\|>\s*(\{[^]*?\})\s*<\|tool_call_end\|>/g,
    ),
  },
  { open: '<minimax:tool_call>', close: '</minimax:tool_call>', read: INVOKE },
  { open: '<function_calls>', close: '</function_calls>', read: INVOKE },
  { open: '<|tool_call_start|>', close: '<|tool_call_end|>', read: either(python, objects) }, // LFM2
  { open: '<|tool_call|>', close: '', read: objects }, // Granite
  { open: 'functools', close: '', read: objects }, // Phi
  { open: '', close: '', read: either(objects, python) }, // Ollama and Llama: the call is all there is
]

const escaped = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)
