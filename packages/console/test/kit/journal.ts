/** Writes a session's events as a daemon would, for tests and pictures that need a certain history. */
import { FAULTS, type FaultCategory } from '@breakfall/faults'

export type Event = Readonly<Record<string, unknown>> & {
  readonly seq: number
  readonly type: string
  readonly at: string
}

const USAGE = (input: number | null, output: number | null): unknown => ({
  inputTokens: { value: input, quality: input === null ? 'unknown' : 'known' },
  outputTokens: { value: output, quality: output === null ? 'unknown' : 'known' },
})

export class Journal {
  readonly events: Event[] = []
  readonly sessionId: string
  #turnId = ''
  #step = 0
  #attempt = 1
  #calls = 0
  #now: number

  constructor(sessionId: string, startMs: number) {
    this.sessionId = sessionId
    this.#now = startMs
  }

  get turnId(): string {
    return this.#turnId
  }
  get now(): number {
    return this.#now
  }

  wait(ms: number): this {
    this.#now += ms
    return this
  }

  add(type: string, fields: Readonly<Record<string, unknown>> = {}): this {
    this.events.push({
      seq: this.events.length + 1,
      type,
      sessionId: this.sessionId,
      turnId: this.#turnId,
      at: new Date(this.#now).toISOString(),
      ...fields,
    })
    return this
  }

  turn(id: string, prompt: string, more: Readonly<Record<string, unknown>> = {}): this {
    this.#turnId = id
    this.#step = 0
    return this.add('turn-start', { prompt, model: 'qwen3-coder', ...more })
  }

  step(): this {
    this.#step += 1
    this.#attempt = 1
    return this.add('step-start', { step: this.#step })
  }

  /** Text of the current attempt, in pieces. */
  say(text: string, overMs = 400, kind: 'text-delta' | 'reasoning-delta' = 'text-delta'): this {
    const pieces = text.match(/[\s\S]{1,24}/gu) ?? []
    for (const piece of pieces) {
      this.wait(overMs / pieces.length)
      this.add(kind, {
        step: this.#step,
        attempt: this.#attempt,
        part: kind === 'text-delta' ? 'p2' : 'p1',
        text: piece,
      })
    }
    return this
  }

  fault(
    category: FaultCategory,
    errorRaw: string,
    more: Readonly<Record<string, unknown>> = {},
  ): Readonly<Record<string, unknown>> {
    const { class: faultClass, boundary, next, title } = FAULTS[category]
    return {
      category,
      class: faultClass,
      boundary,
      phase: 'stream',
      error: `${title}. Breakfall will retry.`,
      message: {
        happened: `${title}.`,
        action: 'Breakfall will retry.',
        advice: 'If this keeps happening, check the server.',
      },
      errorRaw,
      next,
      sideEffects: 'none',
      diagnostics: [],
      at: new Date(this.#now).toISOString(),
      ...more,
    }
  }

  /** The attempt fails; what it showed is thrown away unless it is continued. */
  retry(
    category: FaultCategory,
    errorRaw: string,
    delayMs: number,
    more: {
      action?: string
      fault?: Readonly<Record<string, unknown>>
      event?: Readonly<Record<string, unknown>>
    } = {},
  ): this {
    const fault = this.fault(category, errorRaw, more.fault)
    const { action = 'retry' } = more
    if (action === 'retry' || action === 'fallback') {
      const parts = new Set(
        this.events
          .filter(
            (event) =>
              event['turnId'] === this.#turnId &&
              event['step'] === this.#step &&
              event['attempt'] === this.#attempt &&
              event.type.endsWith('-delta'),
          )
          .map((event) => event['part']),
      )
      for (const part of parts)
        this.add('part-discarded', { step: this.#step, attempt: this.#attempt, part, because: fault })
    }
    this.add('retry', {
      step: this.#step,
      attempt: this.#attempt,
      fault,
      action,
      delayMs,
      nextAt: new Date(this.#now + delayMs).toISOString(),
      max: 6,
      usage: USAGE(null, null),
      ...more.event,
    })
    if (action !== 'resolve') this.#attempt += 1
    return this
  }

  call(tool: string, given: Readonly<Record<string, unknown>>): this {
    this.#calls += 1
    return this.add('tool-call', {
      step: this.#step,
      callId: `c${this.#calls}`,
      tool,
      arguments: given,
      execId: `${this.#turnId}-${this.#step}-${this.#calls}`,
      usage: USAGE(410, 36),
    })
  }

  output(text: string, overMs = 200): this {
    return this.wait(overMs).add('tool-output', { callId: `c${this.#calls}`, stream: 'stdout', text })
  }

  result(outcome: string, text: string, code: number | null = 0, overMs = 60): this {
    this.wait(overMs)
    const exit = {
      cause: 'exited',
      started: true,
      code,
      signal: null,
      signalGuess: null,
      durationMs: 240,
      survivors: [],
      stdoutBytes: text.length,
      stderrBytes: 0,
      truncated: false,
      diagnostics: [],
    }
    return this.add('tool-result', { callId: `c${this.#calls}`, outcome, text, ...(code === null ? {} : { exit }) })
  }

  /** The turn ends in a fault. */
  fail(category: FaultCategory, errorRaw: string, more: Readonly<Record<string, unknown>> = {}): this {
    return this.add('turn-error', { ...this.fault(category, errorRaw), ...more })
  }

  end(text: string, faultsSurvived: number, more: Readonly<Record<string, unknown>> = {}): this {
    return this.add('turn-end', { text, usage: USAGE(9_626, 812), steps: this.#step, faultsSurvived, ...more })
  }
}
