/**
 * Random conversations in the four APIs: valid conversations, and some broken as agents break them. Every text, argument and result in them
 * is unlike all others, which shows what became of each. Written with the oddities that a repair must not smooth: `1.0`, numbers of
 * twenty digits, escapes, the same key twice, white space.
 */
import type { HistoryApi } from '../../test/kit/valid-history.ts'
import { Dice, times, type Trace } from './dice.ts'

export type MadeHistory = {
  readonly api: HistoryApi
  /** The request's body. */
  readonly body: string
  readonly users: readonly string[]
  /** Raw JSON of arguments and of results. */
  readonly inputs: readonly string[]
  readonly results: readonly string[]
  readonly breaks: readonly string[]
}

export const HISTORY_APIS: readonly HistoryApi[] = ['anthropic-messages', 'openai-chat', 'openai-responses', 'gemini']

/** `isBroken`: as an agent breaks it. It may still be valid, if nothing of it was a call. */
export function makeHistory(seed: number, isBroken: boolean, only?: HistoryApi, trace?: Trace): MadeHistory {
  const dice = new Dice(seed, trace)
  const api = only ?? dice.one('api', HISTORY_APIS)
  const talk = new Talk(dice.in('talk'), api)
  const elements = talk.elements()
  const breaks: string[] = []
  for (let at = 0; isBroken && at < 1 + dice.int('breaks', 3); at++)
    breaks.push(broken(dice.in(`break ${at}`), api, elements))
  return { api, body: talk.body(elements), users: talk.users, inputs: talk.inputs, results: talk.results, breaks }
}

// ---- details ----

type Json = Record<string, unknown>

const ODD = [
  '1.0',
  '12345678901234567890',
  '-0.0',
  '1e3',
  '"\\u00e9\\ud83d\\ude00"',
  '"\\ud800"',
  '{"a":1,"a":2}',
  '[1, 2 ,3]',
  '"é😀"',
  'null',
  '"\\/"',
]

class Talk {
  readonly users: string[] = []
  readonly inputs: string[] = []
  readonly results: string[] = []
  readonly #dice: Dice
  readonly #api: HistoryApi
  #ids = 0

  constructor(dice: Dice, api: HistoryApi) {
    this.#dice = dice
    this.#api = api
  }

  elements(): Json[] {
    const dice = this.#dice
    const out: Json[] = [this.#user(dice.in('first'))]
    for (let turn = 0; turn < dice.int('turns', 4); turn++) {
      const own = dice.in(`turn ${turn}`)
      for (let step = 0; step < own.int('steps', 4); step++) out.push(...this.#step(own.in(`step ${step}`), step))
      out.push(...this.#said(own.in('said')), this.#user(own.in('user')))
    }
    if (dice.chance('open', 40)) out.push(...this.#step(dice.in('last'), 9))
    return out
  }

  body(elements: readonly Json[]): string {
    const dice = this.#dice
    const list = {
      'anthropic-messages': 'messages',
      'openai-chat': 'messages',
      'openai-responses': 'input',
      gemini: 'contents',
    }[this.#api]
    const fields: Json = { model: 'm', temperature: raw('1.0'), [list]: elements, stream: true }
    if (dice.chance('tools', 50))
      fields['tools'] = [{ name: 'f', input_schema: raw('{"type":"object","minimum":1.0}') }]
    const json = JSON.stringify(fields, undefined, dice.one('space', [0, 0, 1, '\t']))
    return json.replaceAll(RAW, (_, inner: string) => Buffer.from(inner, 'base64').toString())
  }

  #tag(kind: string): string {
    return `${kind}#${++this.#ids}#`
  }

  #user(dice: Dice): Json {
    const text = `${this.#tag('user')} ${dice.one('text', ['hi', 'Grüße 😀', 'a "quoted" \\ line\nand another', '{"role":"user"}'])}`
    this.users.push(text)
    const isList = dice.chance('list', 50)
    switch (this.#api) {
      case 'anthropic-messages':
        return { role: 'user', content: isList ? [{ type: 'text', text }] : text }
      case 'openai-chat':
        return { role: 'user', content: isList ? [{ type: 'text', text }] : text }
      case 'openai-responses':
        return isList
          ? { type: 'message', role: 'user', content: [{ type: 'input_text', text }] }
          : { role: 'user', content: text }
      case 'gemini':
        return { role: 'user', parts: [{ text }] }
    }
  }

  /** What the model says without a call. */
  #said(dice: Dice): Json[] {
    const text = this.#tag('said')
    switch (this.#api) {
      case 'anthropic-messages': {
        const thought = dice.chance('thought', 40) ? [{ type: 'thinking', thinking: '', signature: 'c2ln' }] : []
        return [
          {
            role: 'assistant',
            content: thought.length > 0 || dice.chance('list', 60) ? [...thought, { type: 'text', text }] : text,
          },
        ]
      }
      case 'openai-chat':
        return [{ role: 'assistant', content: text }]
      case 'openai-responses':
        return [
          ...(dice.chance('thought', 40)
            ? [{ type: 'reasoning', id: `rs_${this.#ids}`, summary: [], encrypted_content: 'ZW5j' }]
            : []),
          { type: 'message', role: 'assistant', content: [{ type: 'output_text', text }] },
        ]
      case 'gemini':
        return [{ role: 'model', parts: [{ text }] }]
    }
  }

  /** Calls and their results. */
  #step(dice: Dice, step: number): Json[] {
    const count = 1 + dice.int('calls', 3)
    const repeats = this.#api === 'openai-chat' && dice.chance('repeats', 20) // some servers number the calls of each step
    const calls = times(count, (at) =>
      this.#call(dice.in(`call ${at}`), repeats ? `call_${at}` : `toolu_${step}x${++this.#ids}`),
    )
    const order = dice.chance('order', 25) ? calls.toReversed() : calls
    const note = dice.chance('note', 30) ? this.#tag('note') : undefined
    switch (this.#api) {
      case 'anthropic-messages': {
        const thought = dice.chance('thought', 30) ? [{ type: 'thinking', thinking: 'hm', signature: 'c2ln' }] : []
        const text = note === undefined ? [] : [{ type: 'text', text: note }]
        const uses = calls.map(({ id, name, input }) => ({ type: 'tool_use', id, name, input: raw(input) }))
        const results = order.map(({ id, result, isError }) => ({
          type: 'tool_result',
          tool_use_id: id,
          content: result,
          ...(isError ? { is_error: true } : {}),
        }))
        const more = dice.chance('more', 20) ? [{ type: 'text', text: this.#tag('said') }] : []
        return [
          { role: 'assistant', content: [...thought, ...text, ...uses] },
          { role: 'user', content: [...results, ...more] },
        ]
      }
      case 'openai-chat':
        return [
          {
            role: 'assistant',
            content: note ?? null,
            tool_calls: calls.map(({ id, name, input }) => ({
              id,
              type: 'function',
              function: { name, arguments: input },
            })),
          },
          ...order.map(({ id, result }) => ({ role: 'tool', tool_call_id: id, content: result })),
        ]
      case 'openai-responses': {
        const isCustom = dice.chance('custom', 20)
        const asked = calls.map(({ id, name, input }) =>
          isCustom
            ? { type: 'custom_tool_call', call_id: id, name, input }
            : { type: 'function_call', call_id: id, name, arguments: input },
        )
        const told = (list: typeof calls): Json[] =>
          list.map(({ id, result }) => ({
            type: isCustom ? 'custom_tool_call_output' : 'function_call_output',
            call_id: id,
            output: result,
          }))
        if (dice.chance('mixed', 40)) return asked.flatMap((call, at) => [call, ...told(calls.slice(at, at + 1))])
        return [...asked, ...told(order)]
      }
      case 'gemini': {
        const hasIds = dice.chance('ids', 50)
        const idOf = (id: string): Json => (hasIds ? { id } : {})
        const text = note === undefined ? [] : [{ text: note }]
        return [
          {
            role: 'model',
            parts: [
              ...text,
              ...calls.map(({ id, name, input }) => ({
                functionCall: { ...idOf(id), name, args: raw(input) },
                thoughtSignature: 'c2ln',
              })),
            ],
          },
          {
            role: dice.one('role', ['user', 'function']),
            parts: (hasIds ? order : calls).map(({ id, name, result }) => ({
              functionResponse: { ...idOf(id), name, response: { result } },
            })),
          },
        ]
      }
    }
  }

  #call(dice: Dice, id: string): { id: string; name: string; input: string; result: string; isError: boolean } {
    const input = `{"tag": "${this.#tag('input')}","odd":${dice.one('odd', ODD)}}`
    const result = `${this.#tag('result')} ${dice.one('result', ['ok', 'line\nline', '', '{"type":"tool_result"}'])}`
    this.inputs.push(input)
    this.results.push(result)
    return { id, name: dice.one('name', ['read', 'bash', 'write']), input, result, isError: dice.chance('error', 10) }
  }
}

/** JSON that is written unchanged. */
const raw = (json: string): string => `@raw:${Buffer.from(json).toString('base64')}@`
const RAW = /"@raw:([\w+/=]*)@"/g

// ---- as agents break it ----

const BREAKS = [
  'drop',
  'drop',
  'drop',
  'twice',
  'swap',
  'cut head',
  'cut tail',
  'cut tail',
  'drop block',
  'drop block',
  'move',
  'blank',
  'interrupt',
] as const

function broken(dice: Dice, api: HistoryApi, elements: Json[]): string {
  const how = dice.one('how', BREAKS)
  const at = dice.int('at', elements.length)
  const user = (text: string): Json =>
    api === 'gemini' ? { role: 'user', parts: [{ text }] } : { role: 'user', content: text }
  switch (how) {
    case 'drop':
      elements.splice(at, 1)
      break
    case 'twice':
      elements.splice(at, 0, ...elements.slice(at, at + 1))
      break
    case 'swap':
      elements.splice(at, 2, ...elements.slice(at, at + 2).toReversed())
      break
    case 'cut head':
      elements.splice(0, at)
      break
    case 'cut tail':
      elements.splice(at + 1, elements.length, user('go on'))
      break
    case 'move':
      elements.splice(dice.int('to', elements.length), 0, ...elements.splice(at, 1))
      break
    case 'interrupt':
      elements.splice(at, 0, user('wait'))
      break
    case 'blank':
      if (api === 'anthropic-messages')
        elements.splice(
          at,
          0,
          dice.one('what', [
            user(' '),
            { role: 'assistant', content: [{ type: 'text', text: '' }] },
            { role: 'assistant', content: '' },
          ]),
        )
      if (api === 'gemini') elements.splice(at, 0, { role: 'model', parts: [] })
      break
    case 'drop block':
      for (const key of ['content', 'parts', 'tool_calls']) {
        const list = elements[at]?.[key]
        if (Array.isArray(list) && list.length > 1) {
          elements[at] = { ...elements[at], [key]: list.toSpliced(dice.int('block', list.length), 1) }
          break
        }
      }
  }
  if (elements.length === 0) elements.push(user('alone'))
  return `${how} ${at}`
}
