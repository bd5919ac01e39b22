/**
 * A turn's events as text for people. Pure: an event in, pieces of text out; the view holds only what it has shown.
 *
 * I1  What was shown and is void is said to be void; the answer is never shown twice without that.
 * I2  A fault is survived when the turn has got on after it; what it ended or waits with was not, however often it was tried.
 */
import { duration, type FaultReport } from '@breakfall/faults'
import type { SessionEvent, SessionEventOf } from '@breakfall/wire'

/** `text` goes on in the same line; `line` is a line of its own. */
export type Piece = {
  readonly kind: 'text' | 'line'
  readonly tone: 'plain' | 'dim' | 'good' | 'bad' | 'warn' | 'head'
  readonly text: string
}

export type Survived = { readonly category: string; readonly what: string; readonly how: string }

const OUTPUT_LINES_MAX = 12 // at the beginning of a tool's output, and again at its end

export class TurnView {
  readonly survived: Survived[] = []
  readonly filesChanged = new Set<string>()
  #open: Survived[] = [] // I2: not known yet
  readonly #writes = new Map<string, string>()
  #midLine = false
  #part = ''
  #void = ''
  #parkedWith: FaultReport | undefined
  #outputLines = 0
  #lastLines: string[] = []
  /** 0 while no event has told. */
  steps = 0

  show(event: SessionEvent): readonly Piece[] {
    switch (event.type) {
      case 'turn-queued':
        return [this.#line('dim', 'queued behind the turn that is running')]
      case 'turn-start':
        return []
      case 'step-start':
        this.#gotOn()
        this.steps = event.step
        return []
      case 'text-delta':
        return [this.#words(event, 'plain')]
      case 'reasoning-delta':
        return [this.#words(event, 'dim')]
      case 'part-discarded':
        return this.#discarded(event)
      case 'tool-draft':
        return []
      case 'tool-call':
        return this.#toolCall(event)
      case 'tool-output':
        return this.#toolOutput(event.text)
      case 'tool-result':
        return this.#toolResult(event)
      case 'retry':
        return this.#retry(event)
      case 'parked':
        this.#parkedWith = event.fault as FaultReport
        return [this.#line('warn', `⏸ parked: ${event.fault.error}`)]
      case 'resumed':
        this.#resumed(event)
        return [this.#line('good', `▶ resumed (${event.because})`)]
      case 'taken-over':
        this.#note('taken_over', 'the daemon was restarted', 'picked up at the last safe point')
        return [this.#line('warn', '↻ the daemon was restarted; the turn goes on from the last safe point')]
      case 'turn-end':
        this.#gotOn()
        this.steps = event.steps
        return this.#midLine ? [{ kind: 'text', tone: 'plain', text: '\n' }] : []
      case 'turn-error':
        if (event.category === 'cancelled') return [this.#line('warn', event.error)] // raw, it says the same again
        return [
          this.#line('bad', `✗ ${event.error}`),
          this.#line('dim', `  ${event.category}${event.errorRaw === event.error ? '' : `: ${event.errorRaw}`}`),
        ]
    }
  }

  /** What was shown to somebody before: nothing is said of it now, but the summary knows it. */
  learn(event: SessionEvent): void {
    this.show(event)
    this.#midLine = false
    this.#part = ''
  }

  /** Goes on in the same line within a part; another part begins a line of its own. */
  #words(event: { readonly part: string; readonly text: string }, tone: Piece['tone']): Piece {
    const fresh = this.#midLine && this.#part !== event.part ? '\n' : ''
    this.#part = event.part
    this.#midLine = !event.text.endsWith('\n')
    return { kind: 'text', tone, text: fresh + event.text }
  }

  /** I1. One answer may have several parts, and is void once. */
  #discarded({ step, attempt }: SessionEventOf<'part-discarded'>): readonly Piece[] {
    const answer = `${step} ${attempt}`
    if (this.#void === answer) return []
    this.#void = answer
    return [this.#line('warn', '⤺ the unfinished answer above is void; it is asked for again')]
  }

  #resumed({ because }: SessionEventOf<'resumed'>): void {
    const fault = this.#parkedWith
    this.#parkedWith = undefined
    if (fault === undefined) this.#note('parked', 'a wait', `resumed by ${because}`)
    else this.#note(fault.category, whatHappened(fault), `parked, resumed by ${because}`)
  }

  #toolCall(event: SessionEventOf<'tool-call'>): readonly Piece[] {
    this.#gotOn()
    this.#outputLines = 0
    this.#lastLines = []
    const { path } = event.arguments
    if ((event.tool === 'write' || event.tool === 'edit') && typeof path === 'string')
      this.#writes.set(event.callId, path)
    return [this.#line('head', `● ${event.tool} ${summaryOf(event.arguments)}`)]
  }

  /** The first lines as they come; of the others the last ones once it is over. */
  #toolOutput(text: string): readonly Piece[] {
    const lines = text.replace(/\n$/, '').split('\n')
    const room = Math.max(0, OUTPUT_LINES_MAX - this.#outputLines)
    const isFirstCut = room < lines.length && this.#outputLines <= OUTPUT_LINES_MAX
    this.#outputLines += lines.length
    this.#lastLines = [...this.#lastLines, ...lines.slice(room)].slice(-OUTPUT_LINES_MAX)
    const shown = lines.slice(0, room).map((line) => this.#outputLine(line))
    return isFirstCut ? [...shown, this.#outputLine('… there is more; its last lines come at its end')] : shown
  }

  #lastOutput(): readonly Piece[] {
    const last = this.#lastLines.splice(0)
    const left = this.#outputLines - OUTPUT_LINES_MAX - last.length
    const gap = left > 0 ? [this.#outputLine(`… ${left} line${left === 1 ? '' : 's'} left out (--json has all)`)] : []
    return [...gap, ...last.map((line) => this.#outputLine(line))]
  }

  #outputLine(line: string): Piece {
    return this.#line('dim', `  │ ${line.slice(0, 400)}`)
  }

  // Not yet got on: the call that a fault ends gets a result as well, and what follows a good one says so soon enough.
  #toolResult(event: SessionEventOf<'tool-result'>): readonly Piece[] {
    const code = event.exit?.code
    const written = this.#writes.get(event.callId)
    if (written !== undefined && event.outcome === 'ok') this.filesChanged.add(written)
    const output = this.#lastOutput()
    switch (event.outcome) {
      case 'ok':
        return output
      case 'failed':
        return [
          ...output,
          this.#line('warn', `  └ ${typeof code === 'number' ? `exit ${code}` : firstLine(event.text)}`),
        ]
      case 'unknown':
        return [...output, this.#line('bad', `  └ nobody knows whether this ran: ${firstLine(event.text)}`)]
      case 'cancelled':
        return [...output, this.#line('dim', '  └ cancelled')]
    }
  }

  #retry(event: SessionEventOf<'retry'>): readonly Piece[] {
    const how = HOW[event.action]
    this.#note(event.fault.category, whatHappened(event.fault as FaultReport), how)
    const wait = event.delayMs > 0 ? ` in ${duration(event.delayMs)}` : ''
    return [
      this.#line(
        'warn',
        `⚡ ${event.fault.category}: ${firstLine(event.fault.errorRaw)} → ${how}${wait} (${event.attempt}/${event.max})`,
      ),
    ]
  }

  #note(category: string, what: string, how: string): void {
    this.#open.push({ category, what, how })
  }

  /** I2 */
  #gotOn(): void {
    this.survived.push(...this.#open.splice(0))
  }

  #line(tone: Piece['tone'], text: string): Piece {
    const fresh = this.#midLine ? '\n' : ''
    this.#midLine = false
    return { kind: 'line', tone, text: fresh + text }
  }
}

// ---- details ----

const HOW: Readonly<Record<SessionEventOf<'retry'>['action'], string>> = {
  retry: 'asked again',
  resolve: 'looked up again',
  resume: 'resumed',
  fallback: 'next model',
}

const whatHappened = (fault: FaultReport): string => firstLine(fault.errorRaw)

const firstLine = (text: string): string => (text.split('\n').find((line) => line.trim() !== '') ?? '').slice(0, 160)

function summaryOf(parameters: Readonly<Record<string, unknown>>): string {
  const { command, path } = parameters
  const text = typeof command === 'string' ? command : typeof path === 'string' ? path : JSON.stringify(parameters)
  const flat = text.replace(/\s*\n\s*/g, ' ⏎ ')
  return flat.length > 140 ? `${flat.slice(0, 139)}…` : flat
}
