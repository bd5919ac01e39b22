/**
 * A turn's events as text for people. Pure: an event in, segments of text out; the view remembers only what it has shown.
 *
 * I1  Discarded text that was shown is marked as discarded, so the answer never appears twice without a word. With `holdsText`, text
 *     is shown once it is final, so discarded text never appears at all.
 * I2  What counts as a survived fault is decided in the wire package, for all readers. Here it gets its words.
 */
import { isIP } from 'node:net'
import type { Diagnostic } from '@breakfall/faults'
import { duration } from '@breakfall/faults/internal'
import type { SessionEvent, SessionEventOf } from '@breakfall/wire'
import { countsAsFault, firstRecord, isProgress, recordAfter, type TurnRecord } from '@breakfall/wire/turn'
import { asTyped, cmd } from '../process/command-name.ts'
import { counted } from '../text/amounts.ts'
import { printable } from '../text/printable.ts'
import { shortened } from '../text/table.ts'
import { type Delta, HeldText } from './held-text.ts'

/** `text` continues the current line; `line` is a whole line. */
export type Segment = {
  readonly kind: 'text' | 'line'
  readonly tone: 'plain' | 'dim' | 'good' | 'bad' | 'warn' | 'head'
  readonly text: string
}

export type Survived = { readonly category: string; readonly what: string; readonly how: string }

export class TurnView {
  readonly survived: Survived[] = []
  /** What the shown turns did. */
  record: TurnRecord = firstRecord(0)
  #pending: Survived[] = [] // I2
  #midLine = false
  #part = ''
  #discardedAnswer = ''
  #parkedWith: SessionEventOf<'parked'> | undefined
  #outputLines = 0
  /** The journal left out a part of the output: its lines cannot be counted. */
  #isOutputCut = false
  #lastLines: string[] = []
  /** The last line of the output, as long as it has no end. */
  #openLine: SessionEventOf<'tool-output'> | undefined
  /** By call: which output is which, because calls are announced together and run one after another. */
  readonly #execIds = new Map<string, string>()
  /** Turns whose prompt was shown when they were queued. */
  readonly #queued = new Set<string>()
  readonly #showsPrompts: boolean
  readonly #held: HeldText | undefined
  /** 0 until an event tells. */
  steps = 0
  /** When the turn started and ended, as far as events told. */
  startedAt: string | undefined
  endedAt: string | undefined

  readonly #allowed: readonly string[] | undefined

  /** `showsPrompts`: the reader did not type them. `holdsText`: what was shown cannot be taken back (I1). `allowed`: what the box may reach. */
  constructor(
    options: {
      readonly showsPrompts?: boolean
      readonly holdsText?: boolean
      readonly allowed?: readonly string[] | undefined
    } = {},
  ) {
    this.#allowed = options.allowed
    this.#showsPrompts = options.showsPrompts ?? false
    this.#held = options.holdsText === true ? new HeldText() : undefined
  }

  show(event: SessionEvent): readonly Segment[] {
    this.record = recordAfter(this.record, event)
    if (isProgress(event.type)) this.survived.push(...this.#pending.splice(0)) // I2
    const rest = continues(this.#openLine, event) ? [] : this.#endLine()
    const final = this.#held?.release(event) ?? []
    return [...rest, ...final.map((delta) => this.#delta(delta)), ...this.#shown(event)]
  }

  #shown(event: SessionEvent): readonly Segment[] {
    switch (event.type) {
      case 'turn-queued':
        this.#queued.add(event.turnId)
        return [...this.#prompt(event.prompt), this.#line('warn', queuedBehind(event))]
      case 'turn-start':
        this.startedAt = event.at
        return this.#queued.has(event.turnId) ? [] : this.#prompt(event.prompt)
      case 'step-start':
        this.steps = event.step
        return []
      case 'text-delta':
      case 'reasoning-delta':
        if (this.#held === undefined) return [this.#delta(event)]
        this.#held.add(event)
        return []
      case 'part-discarded':
        return this.#discarded(event)
      case 'tool-draft':
        return []
      case 'tool-call':
        return this.#toolCall(event)
      case 'tool-output':
        return this.#toolOutput(event)
      case 'tool-result':
        return this.#toolResult(event)
      case 'retry':
        return this.#retry(event)
      case 'compacted':
        return [this.#line('dim', `⇣ ${compactedText(event)}`)]
      case 'parked':
        this.#parkedWith = event
        return [this.#line('warn', `⏸ parked: ${asTyped(event.fault.error)}`)]
      case 'resumed':
        return [this.#line('good', `▶ ${this.#resumed(event)}`)]
      case 'taken-over': {
        const what = event.daemon === undefined ? 'the daemon restarted' : `${printable(event.daemon)} took over`
        this.#note('taken_over', what, 'continued from the last safe point')
        return [this.#line('warn', `↻ ${what}; the turn continues from the last safe point`)]
      }
      case 'box-moved':
        return [this.#line('warn', `⇄ ${movedText(event)}`)]
      case 'model-server':
        return [] // the status line shows it
      case 'approval-requested':
        if (event.question !== undefined)
          return [this.#line('warn', `? ${event.question.server} asks: ${event.question.message}`)]
        return [this.#line('warn', `? ${event.tool} needs your approval: ${event.why}`)]
      case 'approval':
        return [this.#line(event.decision === 'deny' ? 'warn' : 'good', approvalText(event))]
      case 'turn-end':
        this.endedAt = event.at
        this.steps = event.steps
        return this.#midLine ? [{ kind: 'text', tone: 'plain', text: '\n' }] : []
      case 'turn-error':
        this.endedAt = event.at
        if (event.category === 'cancelled') return [this.#line('warn', event.error)] // errorRaw repeats the sentence
        return [
          this.#line('bad', `✗ ${asTyped(event.error)}`),
          this.#line('dim', `  ${event.category}${event.errorRaw === event.error ? '' : `: ${event.errorRaw}`}`),
        ]
    }
  }

  /** Takes in an event from before this run without showing it, for the summary to count. */
  replay(event: SessionEvent): void {
    this.show(event)
    this.#midLine = false
    this.#part = ''
  }

  #prompt(text: string): readonly Segment[] {
    return this.#showsPrompts
      ? text
          .trim()
          .split('\n')
          .map((line) => this.#line('head', `› ${line}`))
      : []
  }

  /** A new part starts a new line, except that all text of a step is one answer. */
  #delta(event: Delta): Segment {
    const isText = event.type === 'text-delta'
    const part = isText ? `text ${event.step}` : event.part
    const fresh = this.#midLine && this.#part !== part ? '\n' : ''
    this.#part = part
    this.#midLine = !event.text.endsWith('\n')
    return { kind: 'text', tone: isText ? 'plain' : 'dim', text: fresh + event.text }
  }

  /** I1. An answer with several parts is reported once. */
  #discarded(event: SessionEventOf<'part-discarded'>): readonly Segment[] {
    this.#held?.discard(event)
    if (this.#held !== undefined) return []
    const { step, attempt } = event
    const answer = `${step} ${attempt}`
    if (this.#discardedAnswer === answer) return []
    this.#discardedAnswer = answer
    return [this.#line('warn', '⤺ the unfinished answer above was discarded; retrying')]
  }

  #resumed(event: SessionEventOf<'resumed'>): string {
    const park = this.#parkedWith
    this.#parkedWith = undefined
    if (park === undefined && this.#pending.length > 0) return 'retrying now, as you asked' // the retry is counted already
    if (park === undefined) this.#note('parked', 'a wait', resumedBy(event))
    else if (countsAsFault(park))
      this.#note(park.fault.category, whatHappened(park.fault), `parked, ${resumedBy(event)}`)
    return resumedBy(event)
  }

  #toolCall(event: SessionEventOf<'tool-call'>): readonly Segment[] {
    this.#execIds.set(event.callId, event.execId)
    this.#outputLines = 0
    this.#isOutputCut = false
    this.#lastLines = []
    const call = this.#line('head', `● ${event.tool} ${summaryOf(event.arguments)}`)
    // Who reads later may want all of an output, also of one that is shown in full here.
    return this.#showsPrompts && event.tool === 'bash' ? [call, this.#line('dim', `  exec ${event.execId}`)] : [call]
  }

  /** Output comes in pieces that may end within a line. Such a line waits for its end, or for another event. */
  #toolOutput(event: SessionEventOf<'tool-output'>): readonly Segment[] {
    if (event.late !== undefined) return [this.#line('warn', `  └ answered after all: ${firstLine(event.text)}`)]
    const lines = ((this.#openLine?.text ?? '') + event.text).split('\n')
    const open = lines.pop() ?? ''
    this.#openLine = open === '' ? undefined : { ...event, text: open.slice(0, LINE_CHARS_MAX) } // more is never shown
    return this.#outputShown(lines)
  }

  #endLine(): readonly Segment[] {
    const open = this.#openLine
    this.#openLine = undefined
    return open === undefined ? [] : this.#outputShown([open.text])
  }

  /** Shows the first lines as they come, and the last ones when the tool has ended. */
  #outputShown(lines: readonly string[]): readonly Segment[] {
    if (lines.length === 0) return []
    const room = Math.max(0, OUTPUT_LINES_MAX - this.#outputLines)
    const isFirstCut = room < lines.length && this.#outputLines <= OUTPUT_LINES_MAX
    this.#outputLines += lines.length
    this.#isOutputCut ||= lines.some(isCutMark)
    this.#lastLines = [...this.#lastLines, ...lines.slice(room)].slice(-OUTPUT_LINES_MAX - 1)
    const shown = lines.slice(0, room).map((line) => this.#outputLine(line))
    return isFirstCut ? [...shown, this.#outputLine('… more output; the last lines follow when it ends')] : shown
  }

  #lastOutput(callId: string): readonly Segment[] {
    const kept = this.#lastLines.splice(0)
    const isWhole = this.#outputLines <= OUTPUT_LINES_MAX + kept.length && !this.#isOutputCut // "1 line omitted" would take the space of that line
    const last = isWhole ? kept : kept.slice(-OUTPUT_LINES_MAX)
    const left = this.#outputLines - OUTPUT_LINES_MAX - last.length
    const atLeast = this.#isOutputCut ? 'more than ' : ''
    this.#outputLines = 0
    this.#isOutputCut = false
    const gap =
      left > 0
        ? [
            this.#outputLine(
              `… ${atLeast}${counted(left, 'line')} omitted; all of it: ${cmd('output')} ${this.#execIds.get(callId) ?? 'EXEC'}`,
            ),
          ]
        : []
    return [...gap, ...last.map((line) => this.#outputLine(line))]
  }

  #outputLine(line: string): Segment {
    return this.#line('dim', `  │ ${line.slice(0, LINE_CHARS_MAX)}`)
  }

  #toolResult(event: SessionEventOf<'tool-result'>): readonly Segment[] {
    const { diagnostics = [] } = event.exit ?? {}
    const refused = refusedLine(diagnostics, this.#allowed)
    const output = [
      ...this.#lastOutput(event.callId),
      ...(refused === undefined ? [] : [this.#line('warn', `  └ ${refused}`)]),
    ]
    switch (event.outcome) {
      case 'ok':
        return output
      case 'failed':
        return [...output, this.#line('warn', `  └ ${withCauses(endOf(event), diagnostics)}`)]
      case 'unknown':
        return [...output, this.#line('bad', `  └ ${unknownText(event.text)}`)]
      case 'cancelled':
        return [...output, this.#line('dim', '  └ cancelled')]
    }
  }

  #retry(event: SessionEventOf<'retry'>): readonly Segment[] {
    const { told } = event
    this.#note(
      event.fault.category,
      whatHappened(event.fault),
      told === undefined ? DONE[event.action] : 'told the model to work in smaller parts',
    )
    if (told !== undefined)
      return [
        this.#line(
          'warn',
          `⚡ ${event.fault.category}: ${firstLine(event.fault.errorRaw)} → telling the model to work in smaller parts`,
        ),
      ]
    const wait = event.delayMs > 0 ? ` in ${duration(event.delayMs)}` : ''
    return [
      this.#line(
        'warn',
        `⚡ ${event.fault.category}: ${firstLine(event.fault.errorRaw)} → ${NOW[event.action]}${wait} (${event.attempt}/${event.max})`,
      ),
    ]
  }

  #note(category: string, what: string, how: string): void {
    this.#pending.push({ category, what, how })
  }

  #line(tone: Segment['tone'], text: string): Segment {
    const fresh = this.#midLine ? '\n' : ''
    this.#midLine = false
    return { kind: 'line', tone, text: fresh + text }
  }
}

/** `shortened the conversation: 12 results became notes, 402 kB → 160 kB`. */
export function compactedText(event: SessionEventOf<'compacted'>): string {
  const { droppedResults, summaryBytes, requestBytesBefore, requestBytesAfter } = event
  const notes =
    droppedResults === 0
      ? []
      : [`${counted(droppedResults, 'old tool result')} became ${droppedResults === 1 ? 'a note' : 'notes'}`]
  const summary = summaryBytes === 0 ? [] : ['the oldest steps became a summary']
  return `shortened the conversation: ${[...notes, ...summary].join(', ')} (${kb(requestBytesBefore)} → ${kb(requestBytesAfter)})`
}

/** The line with which the daemon marks what it left out. */
export const CUT_MARK = /^\[… \d+ bytes left out here; the runner keeps all of it …\]$/m

export const isCutMark = (line: string): boolean => line.startsWith('[… ') && CUT_MARK.test(line)

/** `end`: how the command ended, such as `exit 137`. The causes follow it in the same line. */
export function withCauses(end: string, diagnostics: readonly Diagnostic[]): string {
  const causes = diagnostics.filter(isCause).map((diagnostic) => sentence(diagnostic, end))
  const flag = diagnostics.some(isOutOfMemory) ? '; in a new session: --memory-mb NUMBER' : ''
  return causes.length === 0 ? end : `${end}: ${causes.join('; ')}${flag}`
}

/** `allowed`: what the box may reach, if that is known. Undefined if nothing was refused. */
export function refusedLine(
  diagnostics: readonly Diagnostic[],
  allowed: readonly string[] | undefined,
): string | undefined {
  const denied = diagnostics.find(({ id }) => id === 'network_denied')
  if (denied === undefined) return undefined
  const names = [...new Set((denied.evidence ?? []).map(patternOf))].filter(
    (name) => isIP(name.replace(/:\d+$/, '')) === 0,
  )
  // Refused for another reason than its name, it would be refused again.
  if (names.length === 0 || denied.message.includes(', because')) return denied.message
  const before = allowed === undefined ? ['NAMES'] : allowed.map(withoutPrefix)
  return `${denied.message}; to allow it in a new session: --network ${[...before, ...names].join(',')}`
}

// ---- details, in the order they are used above ----

const OUTPUT_LINES_MAX = 12 // of a tool's output: the first lines, and the last
const LINE_CHARS_MAX = 400

/** An event that only the status line shows ends no line of output. */
function continues(open: SessionEventOf<'tool-output'> | undefined, event: SessionEvent): boolean {
  if (event.type === 'model-server' || (event.type === 'retry' && event.free === true)) return true
  return event.type === 'tool-output' && event.callId === open?.callId && event.stream === open.stream
}

type RetryAction = SessionEventOf<'retry'>['action']

const NOW: Readonly<Record<RetryAction, string>> = {
  retry: 'retrying',
  resolve: 'looking up the address again',
  resume: 'resuming',
  fallback: 'trying the next model',
}

const DONE: Readonly<Record<RetryAction, string>> = {
  retry: 'retried',
  resolve: 'looked up the address again',
  resume: 'resumed',
  fallback: 'used the next model',
}

const RESUMED_BY: Readonly<Record<SessionEventOf<'resumed'>['because'], string>> = {
  time: 'resumed on schedule',
  signal: 'resumed after recovery',
  person: 'resumed by you',
  restart: 'resumed after a restart',
}

function movedText({ from, to, filesKept }: SessionEventOf<'box-moved'>): string {
  const files = filesKept ? 'its files are still there' : 'every file in it is lost'
  return `runner ${from} was lost; the session has a new box at ${to}, and ${files}`
}

const kb = (bytes: number): string => `${Math.max(1, Math.round(bytes / 1000))} kB`

function queuedBehind({ behind }: SessionEventOf<'turn-queued'>): string {
  if (behind === undefined) return 'queued behind the running turn'
  return `waiting: session ${behind.sessionId} is working in ${behind.workspace}. This turn starts when that one ends. To work at the same time: --share; Ctrl-C cancels`
}

const resumedBy = ({ because }: SessionEventOf<'resumed'>): string => RESUMED_BY[because]

const whatHappened = (fault: { readonly errorRaw: string }): string => firstLine(fault.errorRaw)

const firstLine = (text: string): string => shortened(text.split('\n').find((line) => line.trim() !== '') ?? '', 160)

/** The daemon's sentences start with the same words. */
function unknownText(text: string): string {
  const said = 'unknown whether this ran: '
  return said + firstLine(text).replace(`It is ${said}`, '')
}

const endOf = ({ exit, text }: SessionEventOf<'tool-result'>): string =>
  typeof exit?.code === 'number' ? `exit ${exit.code}` : firstLine(text)

function summaryOf(parameters: Readonly<Record<string, unknown>>): string {
  const { command, path } = parameters
  const text = typeof command === 'string' ? command : typeof path === 'string' ? path : JSON.stringify(parameters)
  const flat = text.replace(/\s*\n\s*/g, ' ⏎ ')
  return shortened(flat, 140)
}

function approvalText({ decision, reason, question }: SessionEventOf<'approval'>): string {
  if (question !== undefined) return decision === 'deny' ? '✗ declined' : '✓ answered'
  if (decision === 'deny') return `✗ denied${reason === null ? '' : `: ${reason}`}`
  return decision === 'allow' ? '✓ approved' : '✓ approved for this session'
}

/** `refusedLine` prints these on a separate line. */
const isCause = ({ id, rank }: Diagnostic): boolean =>
  (rank === 'cause' && id !== 'network_denied') || id === 'oom_killed_child'

/** A command that could not start has its cause in its text already. */
const sentence = ({ message, advice }: Diagnostic, end: string): string =>
  end.includes(message) ? advice : `${message}; ${advice}`

const isOutOfMemory = ({ id }: Diagnostic): boolean => id.startsWith('oom_killed')

/** A name alone means the ports 80 and 443. */
const patternOf = (tried: string): string => tried.replace(/:(?:80|443)$/, '')

const withoutPrefix = (name: string): string => name.replace(/^preset:/, '')
