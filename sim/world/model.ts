/**
 * A simulated model server with OpenAI's chat completions. What it answers follows from the conversation: a prompt names a turn, and each
 * answer calls that turn's next command, in other words each time. So after any fault, the rules know what must have happened.
 */
import type { PlannedStep, PlannedTurn } from '../plan.ts'
import type { Random } from '../host/random.ts'
import type { Process, World } from '../host/time.ts'
import type { Answering, Exchange, Server } from './network.ts'

export type Message = {
  readonly role: string
  readonly content?: unknown
  readonly tool_calls?: readonly { readonly id: string; readonly function: { readonly arguments: string } }[]
  readonly tool_call_id?: string
}

/** What a request asks: for the turn that its last prompt names, after so many answers. */
export type Asked = { readonly key: string; readonly given: number; readonly messages: readonly Message[] }

export class Model implements Server {
  readonly process: Process
  /** Hears of each refusal that says when to ask again. */
  onRefused: (exchange: Exchange, seconds: number) => void = () => undefined
  readonly #world: World
  readonly #turns: ReadonlyMap<string, PlannedTurn>
  readonly #faultRate: number
  readonly #calmAt: number
  #requests = 0
  /** How many requests were refused, or their answers broken off. */
  failed = 0

  constructor(world: World, turns: ReadonlyMap<string, PlannedTurn>, faultRate: number, calmAt: number) {
    this.#world = world
    this.#turns = turns
    this.#faultRate = faultRate
    this.#calmAt = calmAt
    this.process = world.process('model')
  }

  serve(exchange: Exchange, answer: Answering): void {
    if (!exchange.path.endsWith('/chat/completions')) {
      answer.head(404, { 'content-type': 'application/json' })
      return answer.end('{}')
    }
    this.#requests += 1
    const dice = this.#world.random('model', exchange.from.name, this.#requests)
    const { key, given } = askedOf(exchange)
    const turn = this.#turns.get(key)
    const isFaulty = this.#world.now < this.#calmAt && dice.chance(this.#faultRate)
    if (isFaulty) this.failed += 1
    if (isFaulty && dice.chance(0.5)) return this.#refuse(exchange, answer, dice)
    this.#stream(answer, dice, framesOf(turn, key, given, dice, this.#world.isEven), isFaulty)
  }

  #refuse(exchange: Exchange, answer: Answering, dice: Random): void {
    const [status, seconds, type] = dice.of(REFUSALS)
    const headers = seconds === null ? {} : { 'retry-after': String(seconds) }
    if (seconds !== null) this.onRefused(exchange, seconds)
    answer.head(status, { 'content-type': 'application/json', ...headers })
    answer.end(JSON.stringify({ error: { message: `refused: ${type}`, type, code: type } }))
  }

  #stream(answer: Answering, dice: Random, frames: readonly string[], isFaulty: boolean): void {
    answer.head(200, { 'content-type': 'text/event-stream' })
    const how = isFaulty ? dice.of(['reset', 'end', 'stall', 'cut'] as const) : 'whole'
    const until = how === 'whole' ? frames.length : dice.whole(0, frames.length - 1)
    let atMs = 0
    for (const [nr, frame] of frames.entries()) {
      atMs += this.#world.isEven ? 20 : dice.of([0, 1, 20, 300])
      if (nr < until) this.#later(atMs, () => answer.write(frame))
    }
    if (how === 'whole' || how === 'end') this.#later(atMs, () => answer.end())
    if (how === 'reset') this.#later(atMs, () => answer.reset())
    if (how === 'cut') {
      const frame = frames[until] ?? ''
      this.#later(atMs, () => answer.write(frame.slice(0, frame.length / 2)))
      this.#later(atMs + 1, () => answer.reset())
    }
  }

  #later(ms: number, run: () => void): void {
    this.#world.after(ms, this.process, 'model', run)
  }
}

/** Read once for each request, by whoever needs it first. */
export function askedOf(exchange: Exchange): Asked {
  const known = ASKED.get(exchange)
  if (known !== undefined) return known
  const { messages }: { readonly messages: readonly Message[] } = JSON.parse(exchange.body)
  const from = messages.findLastIndex(({ role, content }) => role === 'user' && keyIn(content) !== undefined)
  const given = messages.slice(from + 1).filter(({ role }) => role === 'assistant').length
  const asked = { key: keyIn(messages[from]?.content) ?? '', given, messages }
  ASKED.set(exchange, asked)
  return asked
}

/** The key that a prompt names. */
export function keyIn(content: unknown): string | undefined {
  const text = typeof content === 'string' ? content : JSON.stringify(content ?? '')
  return /<([^<>]+)>/.exec(text)?.[1]
}

/** What the prompt of a turn says. */
export const promptOf = (key: string): string => `Do the work of <${key}>.`

/** The file of a session's workspace. Each `write` and `edit` puts its own line before the last one. */
export const FILE = 'notes.txt'
const LAST_LINE = 'END\n'

/** Whose line was put into a file last. */
export const lastWorkIn = (text: string): string => text.split('\n').at(-3) ?? ''

// ---- details ----

const ASKED = new WeakMap<Exchange, Asked>()

function framesOf(
  turn: PlannedTurn | undefined,
  key: string,
  given: number,
  dice: Random,
  isEven: boolean,
): readonly string[] {
  const words = WORDS[isEven ? given % WORDS.length : dice.whole(0, WORDS.length - 1)] ?? ''
  const step = turn?.steps[given]
  const text = `${words} [${key} ${given}]`.match(/.{1,7}/g) ?? []
  const calls = Array.from({ length: step?.calls ?? 0 }, (_, call) => {
    const { tool = 'bash' } = step ?? {}
    const args = JSON.stringify(argumentsOf(tool, `${key}.${given + 1}.${call + 1}`, step))
    const half = isEven ? args.length >> 1 : dice.whole(0, args.length)
    const id = `call_${Math.floor(dice.next() * 1e9).toString(36)}_${call}`
    return [
      delta({ tool_calls: [{ index: call, id, type: 'function', function: { name: tool, arguments: '' } }] }),
      delta({ tool_calls: [{ index: call, function: { arguments: args.slice(0, half) } }] }),
      delta({ tool_calls: [{ index: call, function: { arguments: args.slice(half) } }] }),
    ]
  })
  return [
    delta({ role: 'assistant', content: '' }),
    ...text.map((content) => delta({ content })),
    ...calls.flat(),
    frame({ ...HEAD, choices: [{ index: 0, delta: {}, finish_reason: step === undefined ? 'stop' : 'tool_calls' }] }),
    frame({ ...HEAD, choices: [], usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 } }),
    'data: [DONE]\n\n',
  ]
}

function argumentsOf(tool: string, name: string, step: PlannedStep = NO_STEP): Readonly<Record<string, string>> {
  if (tool === 'write') return { path: FILE, content: `${name}\n${LAST_LINE}` }
  if (tool === 'edit') return { path: FILE, old: LAST_LINE, new: `${name}\n${LAST_LINE}` }
  return { command: `work ${name} lines=${step.lines} ms=${step.ms} code=${step.code} both=${step.lines % 2}` }
}

const NO_STEP: PlannedStep = { lines: 0, ms: 0, code: 0, calls: 0 }

const HEAD = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'simulated' }
const frame = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`
const delta = (value: unknown): string => frame({ ...HEAD, choices: [{ index: 0, delta: value, finish_reason: null }] })

const WORDS = ['I will do it now.', 'Let me see what this takes.', 'On it: one moment, please.', 'Next step.']

const REFUSALS = [
  [500, null, 'server_error'],
  [503, null, 'overloaded'],
  [503, 20, 'overloaded'],
  [429, 2, 'rate_limit_exceeded'],
  [429, 90, 'rate_limit_exceeded'],
  [429, null, 'insufficient_quota'],
] as const
