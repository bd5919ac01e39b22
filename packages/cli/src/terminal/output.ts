/**
 * Writes to stdout (results) and to stderr (messages).
 *
 * I1  A closed pipe is not an error: `breakfall tail | head` ends quietly.
 * I2  Any other error of stdout, such as a full disk, is reported once on stderr.
 * I3  An error of stderr is ignored: there is nowhere left to report it.
 */
import { styleText } from 'node:util'
import { printable, printableJson, withoutControls } from '../text/printable.ts'

export type Style = Parameters<typeof styleText>[0]

/** `process.stdout`, or any stream in a test. */
export type OutputStream = NodeJS.WritableStream & { readonly isTTY?: boolean; readonly columns?: number }

export class Output {
  readonly json: boolean
  readonly #stdout: OutputStream
  readonly #stderr: OutputStream
  /** Fields of every result. A result's own fields win. */
  #resultFields: object
  #endsWithStatus = false
  /** On a terminal, stdout and stderr share lines: a message does not continue a line of text. */
  #isMidLine = false
  #isBroken = false
  /** The style that streamed text is in, and the sequence that ends it. */
  #streamed: { readonly style: Style; readonly close: string } | undefined

  constructor(options: { json: boolean; resultFields?: object; stdout?: OutputStream; stderr?: OutputStream }) {
    this.json = options.json
    this.#resultFields = options.resultFields ?? {}
    this.#stdout = options.stdout ?? process.stdout
    this.#stderr = options.stderr ?? process.stderr
    if (HANDLED.has(this.#stdout)) return
    HANDLED.set(this.#stdout, { survivesClosing: false })
    this.#stderr.on('error', () => undefined) // I3
    let isReported = false
    this.#stdout.on('error', (error: NodeJS.ErrnoException) => {
      const isClosed = error.code === 'EPIPE' // I1
      if (!isClosed && !isReported) this.#stderr.write(`breakfall: Cannot write to standard output: ${error.message}\n`) // I2
      isReported ||= !isClosed
      if (HANDLED.get(this.#stdout)?.survivesClosing === true) return
      process.exit(isClosed ? (process.exitCode ?? 0) : 1)
    })
  }

  /** Keeps the process running if stdout is closed: its work has to reach its end. */
  surviveClosedStdout(): void {
    HANDLED.set(this.#stdout, { survivesClosing: true })
  }

  /** One JSON object, one line. */
  data(value: unknown): void {
    this.#stdout.write(printableJson(JSON.stringify(value)) + '\n')
  }

  /** The last line of `--json`. `outcome` is `finished` unless `fields` has another one. */
  result(fields: object = {}): void {
    this.#hasResult = true
    this.data({ event: 'result', outcome: 'finished', ...this.#resultFields, ...fields })
  }

  /** Adds fields to the result that is written later. */
  addToResult(fields: object): void {
    this.#resultFields = { ...this.#resultFields, ...fields }
  }

  #hasResult = false

  get hasResult(): boolean {
    return this.#hasResult
  }

  /** Writes a result if the command has not written one. */
  end(): void {
    if (this.json && !this.#hasResult) this.result()
  }

  /** A line of text on stdout. */
  line(text = ''): void {
    this.write(text + '\n')
  }

  /** A line on stdout. On a terminal, it replaces the status before it. */
  status(text: string): void {
    if (this.#endsWithStatus && this.isTerminal) this.eraseLines(1)
    this.line(this.isTerminal ? this.style('dim', text.slice(0, this.columns - 1)) : text)
    this.#endsWithStatus = true
  }

  /** Text on stdout, without a line break. */
  write(text: string): void {
    this.endStyle()
    this.#endsWithStatus = false
    this.#put(this.#clean(text))
  }

  #put(text: string): void {
    const shown = this.#isBroken ? text.replace(/^\n/, '') : text // the line has ended already
    this.#isBroken = false
    this.#isMidLine = shown === '' ? this.#isMidLine : !shown.endsWith('\n')
    this.#stdout.write(shown)
  }

  /** On a terminal: erases the last lines. */
  eraseLines(lines: number): void {
    this.endStyle()
    this.#stdout.write(`\x1b[${lines}A\x1b[J`)
  }

  /** Whether the terminal marks what is pasted, which tells it from what is typed. */
  marksPastes(isOn: boolean): void {
    if (this.isTerminal) this.#stdout.write(isOn ? '\x1b[?2004h' : '\x1b[?2004l')
  }

  /** Streams text in one style. The style ends before anything else is written. */
  stream(style: Style, text: string): void {
    this.#endsWithStatus = false
    if (String(this.#streamed?.style) !== String(style)) {
      this.endStyle()
      const [open = '', close = ''] = this.style(style, '\0').split('\0')
      this.#streamed = { style, close }
      this.#stdout.write(open)
    }
    this.#put(this.#clean(text))
  }

  /** With colours off, the text contains none of ours. */
  #clean(text: string): string {
    return this.style('dim', 'x') === 'x' ? withoutControls(text) : printable(text)
  }

  /** Ends the style of streamed text. */
  endStyle(): void {
    const close = this.#streamed?.close ?? ''
    this.#streamed = undefined
    if (close !== '') this.#stdout.write(close)
  }

  /** A message on stderr. */
  say(text: string): void {
    this.endStyle()
    this.#endsWithStatus = false
    const isShared = this.#isMidLine && this.isTerminal && this.isStderrTerminal
    if (isShared) this.#stderr.write('\n')
    this.#isBroken ||= isShared
    this.#isMidLine &&= !isShared
    this.#stderr.write((this.styleErr('dim', 'x') === 'x' ? withoutControls(text) : printable(text)) + '\n')
  }

  get isTerminal(): boolean {
    return this.#stdout.isTTY === true && !this.json
  }

  /** Whether stderr is a terminal: then a person reads messages as they come. */
  get isStderrTerminal(): boolean {
    return this.#stderr.isTTY === true
  }

  get columns(): number {
    return this.#stdout.columns || 100 // 0: a terminal that does not know its size
  }

  /** Styles text for stdout. Honours NO_COLOR, FORCE_COLOR and whether it is a terminal. */
  style(style: Style, text: string): string {
    return styleText(style, text, { stream: this.#stdout, validateStream: true })
  }

  styleErr(style: Style, text: string): string {
    return styleText(style, text, { stream: this.#stderr, validateStream: true })
  }
}

// ---- details ----

/** One error handler per stream, however many outputs write to it. */
const HANDLED = new WeakMap<OutputStream, { readonly survivesClosing: boolean }>()
