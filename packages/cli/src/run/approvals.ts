/**
 * Answers to tool calls that wait for an approval, during a run, from the keyboard.
 *
 * I1  A question is asked once, and goes away when someone else answers it.
 * I2  Without a keyboard the run does not wait: it says how to approve.
 * I3  Every key that is pressed after the question appeared counts, however fast. What was typed before it answers nothing.
 */
import type { DaemonClient } from '@breakfall/client'
import type { ApprovalDecision, SessionEvent, SessionEventOf } from '@breakfall/wire'
import type { Output } from '../render/output.ts'
import { printable } from '../render/printable.ts'

type Keyboard = Pick<NodeJS.ReadStream, 'isTTY' | 'setRawMode' | 'on' | 'off' | 'resume' | 'pause'>

export class Approvals implements Disposable {
  readonly #client: Pick<DaemonClient, 'approve'>
  readonly #out: Output
  readonly #keyboard: Keyboard
  readonly #leave: () => void
  #question: SessionEventOf<'approval-requested'> | undefined
  #stopListening: (() => void) | undefined

  constructor(parts: {
    readonly client: Pick<DaemonClient, 'approve'>
    readonly out: Output
    /** Ctrl-C, which a raw keyboard does not send as a signal. */
    readonly leave: () => void
    readonly keyboard?: Keyboard
  }) {
    this.#client = parts.client
    this.#out = parts.out
    this.#leave = parts.leave
    this.#keyboard = parts.keyboard ?? process.stdin
  }

  /** True if the park is a question that this run answers. */
  async takes(event: SessionEvent): Promise<boolean> {
    if (event.type === 'approval-requested') this.#question = event
    if (event.type !== 'parked') {
      this.#stopListening?.() // I1
      return false
    }
    const question = this.#question
    if (event.because !== 'approval_needed' || question === undefined) return false
    if (this.#out.json || this.#keyboard.isTTY !== true || !this.#out.isTerminal) return false // I2
    await this.#ask(question)
    return true
  }

  [Symbol.dispose](): void {
    this.#stopListening?.()
  }

  // ---- details ----

  async #ask(question: SessionEventOf<'approval-requested'>): Promise<void> {
    let isShown = false
    const onKeys = (data: Buffer): void => {
      const key = data
        .toString()
        .toLowerCase()
        .split('')
        .find((char) => char === CTRL_C || KEYS[char] !== undefined)
      if (!isShown || key === undefined) return
      const decision = KEYS[key]
      this.#stopListening?.()
      if (decision === undefined) this.#leave()
      else void this.#answer(question, decision)
    }
    this.#keyboard.setRawMode(true)
    this.#keyboard.on('data', onKeys)
    this.#keyboard.resume()
    this.#stopListening = () => {
      this.#stopListening = undefined
      this.#keyboard.off('data', onKeys)
      this.#keyboard.setRawMode(false)
      this.#keyboard.pause()
    }
    await readPending() // I3
    isShown = true
    const given = printable(JSON.stringify(question.arguments)).slice(0, ARGUMENTS_CHARS)
    this.#out.say(`${question.tool} ${given}`)
    this.#out.say('[y] allow   [a] allow this tool for the session   [n] deny   [Ctrl-C] decide later')
  }

  async #answer({ turnId, callId }: SessionEventOf<'approval-requested'>, decision: ApprovalDecision): Promise<void> {
    try {
      await this.#client.approve(turnId, { callId, decision })
    } catch (thrown) {
      this.#out.say(`the answer was not accepted: ${thrown instanceof Error ? thrown.message : String(thrown)}`)
    }
  }
}

/** Two turns of the event loop: between them, everything that waits at the terminal is read. */
async function readPending(): Promise<void> {
  for (const _turn of [1, 2]) await new Promise((resolve) => setImmediate(resolve))
}

const ARGUMENTS_CHARS = 500
const CTRL_C = '\u0003'
const KEYS: Readonly<Record<string, ApprovalDecision>> = { y: 'allow', a: 'allow_session', n: 'deny' }
