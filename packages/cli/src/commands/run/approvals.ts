/**
 * Answers to tool calls that wait for an approval, during a run, from the keyboard.
 *
 * I1  A question is asked once, and goes away when someone else answers it.
 * I2  Without a keyboard the run does not wait: it says how to approve.
 * I3  One key is one answer. A key counts if nothing else is received shortly before or after it: what was typed before the question
 *     appeared, what is pasted, and the several bytes of an arrow key answer nothing. Only Ctrl-C counts in any company.
 * I4  What allows more than the call that is shown takes a second key.
 */
import { createInterface } from 'node:readline/promises'
import { messageOf } from '@breakfall/faults/internal'
import type {
  AnswerValue,
  ApprovalDecision,
  CallQuestion,
  SessionEvent,
  SessionEventOf,
  TurnApprove,
} from '@breakfall/wire'
import { fieldsOf, questionOf } from '@breakfall/wire/turn'
import { type CallText, callText } from '../../render/call-text.ts'
import type { Output } from '../../terminal/output.ts'
import { CTRL_C, ENTER, type Key, keysOf, type KeyState, NO_KEYS, OTHER } from './keys.ts'

/** `process.stdin`, or a test's. */
type Keyboard = {
  readonly isTTY?: boolean
  setRawMode(isRaw: boolean): unknown
  on(event: 'data', listener: (bytes: Buffer) => void): unknown
  on(event: 'error', listener: () => void): unknown
  off(event: 'data', listener: (bytes: Buffer) => void): unknown
  resume(): unknown
  pause(): unknown
}

type Answers = {
  approve(turnId: string, answer: TurnApprove): Promise<unknown>
}

export class Approvals implements Disposable {
  readonly #client: Answers
  readonly #out: Output
  readonly #keyboard: Keyboard
  readonly #leave: () => void
  readonly #askLine: typeof lineFrom
  #question: SessionEventOf<'approval-requested'> | undefined
  #stopListening: (() => void) | undefined

  constructor(parts: {
    readonly client: Answers
    readonly out: Output
    /** Ctrl-C, which a raw keyboard does not send as a signal. */
    readonly leave: () => void
    readonly keyboard?: Keyboard
    readonly askLine?: typeof lineFrom
  }) {
    this.#client = parts.client
    this.#out = parts.out
    this.#leave = parts.leave
    this.#keyboard = parts.keyboard ?? process.stdin
    this.#askLine = parts.askLine ?? lineFrom
  }

  /** True if the park is a question that this run answers. */
  async takes(event: SessionEvent): Promise<boolean> {
    if (event.type === 'approval-requested') this.#question = event
    if (event.type !== 'parked') {
      this.#stopListening?.() // I1
      return false
    }
    const question = this.#question
    if (questionOf(event) !== 'approval' || question === undefined) return false
    if (this.#out.json || this.#keyboard.isTTY !== true || !this.#out.isTerminal) return false // I2
    await this.#ask(question)
    return true
  }

  [Symbol.dispose](): void {
    this.#stopListening?.()
  }

  // ---- details ----

  async #ask(question: SessionEventOf<'approval-requested'>): Promise<void> {
    let state: KeyState = NO_KEYS
    let together: readonly Key[] = []
    let settling: NodeJS.Timeout | undefined
    let isShown = false
    const asked = new Asked(question)
    const onKey = (key: Key): void => {
      const next = asked.press(key)
      if (next.say !== undefined) this.#out.line(next.say)
      if (next.decision === undefined) return
      this.#stopListening?.()
      void this.#answer(question, next.decision)
    }
    const onBytes = (bytes: Buffer): void => {
      const read = keysOf(bytes, state)
      state = read.state
      if (!isShown) return
      if (read.keys.includes(CTRL_C)) {
        this.#stopListening?.()
        return this.#leave()
      }
      together = [...together, ...read.keys].slice(0, 2) // more than one is too many
      clearTimeout(settling)
      settling = setTimeout(() => {
        const [key, ...more] = together
        together = []
        if (key !== undefined) onKey(more.length === 0 ? key : OTHER)
      }, SETTLE_MS)
    }
    this.#keyboard.on('error', () => undefined) // the terminal was closed, which its signal says
    this.#keyboard.setRawMode(true)
    this.#keyboard.on('data', onBytes)
    this.#keyboard.resume()
    this.#out.marksPastes(true)
    this.#stopListening = () => {
      this.#stopListening = undefined
      clearTimeout(settling)
      this.#out.marksPastes(false)
      this.#keyboard.off('data', onBytes)
      this.#keyboard.setRawMode(false)
      this.#keyboard.pause()
    }
    await readPending() // I3
    isShown = true
    this.#out.line(asked.question)
  }

  async #answer(asked: SessionEventOf<'approval-requested'>, decision: ApprovalDecision): Promise<void> {
    const { turnId, callId, question } = asked
    try {
      if (question === undefined) return void (await this.#client.approve(turnId, { callId, decision }))
      const value = decision === 'deny' ? {} : await this.#values(question)
      if (value !== undefined) await this.#client.approve(turnId, { callId, decision, question: question.id, value })
    } catch (thrown) {
      this.#out.say(`the answer was not accepted: ${messageOf(thrown)}`)
    }
  }

  /** The fields of an answer, line by line. Undefined: it has been answered elsewhere, or is left for later. */
  async #values(question: CallQuestion): Promise<AnswerValue | undefined> {
    const stop = new AbortController()
    this.#stopListening = () => {
      this.#stopListening = undefined
      stop.abort()
    }
    const leave = (): void => {
      this.#stopListening?.()
      this.#leave()
    }
    const value: AnswerValue = {}
    for (const { name, label, isOptional, parse } of fieldsOf(question))
      for (;;) {
        this.#out.line(label) // it is the server's text: only the output knows what a terminal may get
        const line = await this.#askLine('> ', stop.signal, leave).catch(() => undefined) // answered elsewhere, or left
        if (line === undefined || stop.signal.aborted) return undefined
        if (line === '' && isOptional) break
        const given = line === '' ? undefined : parse(line)
        if (given !== undefined) value[name] = given
        if (given !== undefined) break
        this.#out.line('That is no value of this field.')
      }
    this.#stopListening = undefined
    return value
  }
}

/** One line from the terminal. Rejects if the signal fires. */
async function lineFrom(prompt: string, signal: AbortSignal, onInterrupt: () => void): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stdout })
  lines.on('SIGINT', onInterrupt)
  try {
    return await lines.question(prompt, { signal })
  } finally {
    lines.close()
  }
}

/** Two turns of the event loop: between them, everything that waits at the terminal is read. */
async function readPending(): Promise<void> {
  for (const _turn of [1, 2]) await new Promise((resolve) => setImmediate(resolve))
}

/** Longer than a terminal takes to deliver what belongs together, shorter than a person takes to press two keys. */
const SETTLE_MS = 25

const DECISIONS: Readonly<Record<Key, ApprovalDecision>> = { y: 'allow', n: 'deny' }

/** What a key means, given the keys before it. */
class Asked {
  readonly #call: Pick<SessionEventOf<'approval-requested'>, 'tool' | 'arguments' | 'question'>
  readonly #shown: CallText
  #isConfirming = false
  #isHelped = false

  constructor(call: Pick<SessionEventOf<'approval-requested'>, 'tool' | 'arguments' | 'question'>) {
    this.#call = call
    this.#shown = callText(call.tool, call.arguments)
  }

  get question(): string {
    return `${this.#shown.text}\n${this.#choices}`
  }

  get #choices(): string {
    const more = this.#shown.isCut ? '[s] show all of it   ' : ''
    if (this.#call.question !== undefined) return `[y] answer   [n] decline   ${more}[Ctrl-C] answer later`
    return `[y] allow   [a] allow this tool for the session   [n] deny   ${more}[Ctrl-C] decide later`
  }

  press(pressed: Key): { readonly decision?: ApprovalDecision; readonly say?: string } {
    const key = pressed.toLowerCase()
    const wasConfirming = this.#isConfirming
    this.#isConfirming = key === 'a' && this.#call.question === undefined
    if (wasConfirming && key === ENTER) return { decision: 'allow_session' } // I4
    const decision = DECISIONS[key]
    if (decision !== undefined) return { decision }
    const { tool, arguments: given } = this.#call
    if (this.#isConfirming)
      return { say: `Press Enter to allow every further call of ${tool} in this session without a question.` }
    if (key === 's') return { say: `${callText(tool, given, Infinity).text}\n${this.#choices}` }
    if (wasConfirming) return { say: `Not allowed for the session.\n${this.#choices}` }
    if (this.#isHelped) return {}
    this.#isHelped = true
    return { say: `That answers nothing: press one key.\n${this.#choices}` }
  }
}
