/**
 * What goes to stdout (data) and to stderr (talk).
 *
 * I1  A reader that has gone is not an error: `breakfall tail | head` ends quietly.
 * I2  Any other trouble with stdout, such as a full disk behind it, is said in words, once.
 * I3  What nobody can be told is not told: trouble with stderr changes nothing.
 */
import { styleText } from 'node:util'
import { printable, printableJson, withoutControls } from './printable.ts'

export type Style = Parameters<typeof styleText>[0]

export class Output {
  readonly json: boolean
  readonly #stdout: NodeJS.WriteStream
  readonly #stderr: NodeJS.WriteStream
  /** What every result says, unless it says otherwise. */
  #about: object
  /** The style that running text was left in: what opened it, and what closes it. */
  #running: { readonly style: Style; readonly close: string } | undefined

  constructor(options: { json: boolean; about?: object; stdout?: NodeJS.WriteStream; stderr?: NodeJS.WriteStream }) {
    this.json = options.json
    this.#about = options.about ?? {}
    this.#stdout = options.stdout ?? process.stdout
    this.#stderr = options.stderr ?? process.stderr
    if (WATCHED.has(this.#stdout)) return
    WATCHED.set(this.#stdout, { outlivesReader: false })
    this.#stderr.on('error', () => undefined) // I3
    let isTold = false
    this.#stdout.on('error', (error: NodeJS.ErrnoException) => {
      const isGone = error.code === 'EPIPE' // I1
      if (!isGone && !isTold) this.#stderr.write(`breakfall: standard output cannot be written: ${error.message}\n`) // I2
      isTold ||= !isGone
      if (WATCHED.get(this.#stdout)?.outlivesReader === true) return
      process.exit(isGone ? (process.exitCode ?? 0) : 1)
    })
  }

  /** What runs here has to be brought to its end, also where nobody reads along any more. */
  outlivesItsReader(): void {
    WATCHED.set(this.#stdout, { outlivesReader: true })
  }

  /** One JSON object, one line. */
  data(value: unknown): void {
    this.#stdout.write(printableJson(JSON.stringify(value)) + '\n')
  }

  /** The last line of `--json`: how it ended, and what came of it. `outcome` is `finished` where nothing else is said. */
  result(fields: object = {}): void {
    this.#hasResult = true
    this.data({ event: 'result', outcome: 'finished', ...this.#about, ...fields })
  }

  /** From now on the result says this as well, whoever writes it. */
  knows(fields: object): void {
    this.#about = { ...this.#about, ...fields }
  }

  #hasResult = false

  get hasResult(): boolean {
    return this.#hasResult
  }

  /** What has come to its end without a result of its own gets one. */
  end(): void {
    if (this.json && !this.#hasResult) this.result()
  }

  /** Text for people, on stdout. */
  line(text = ''): void {
    this.write(text + '\n')
  }

  /** Text without a line break, on stdout. */
  write(text: string): void {
    this.rest()
    this.#stdout.write(this.#clean(text))
  }

  /** On a terminal: back to the first of so many lines, which are wiped. */
  wipe(lines: number): void {
    this.rest()
    this.#stdout.write(`\x1b[${lines}A\x1b[J`)
  }

  /** Text that comes in pieces: its style is opened with the first one and closed before anything else is written. */
  flow(style: Style, text: string): void {
    if (String(this.#running?.style) !== String(style)) {
      this.rest()
      const [open = '', close = ''] = this.style(style, '\0').split('\0')
      this.#running = { style, close }
      this.#stdout.write(open)
    }
    this.#stdout.write(this.#clean(text))
  }

  /** Where colours are off none of ours are in it. */
  #clean(text: string): string {
    return this.style('dim', 'x') === 'x' ? withoutControls(text) : printable(text)
  }

  /** Closes the style that running text was left in. */
  rest(): void {
    const close = this.#running?.close ?? ''
    this.#running = undefined
    if (close !== '') this.#stdout.write(close)
  }

  /** Talk: what is going on, on stderr. */
  say(text: string): void {
    this.rest()
    this.#stderr.write((this.styleErr('dim', 'x') === 'x' ? withoutControls(text) : printable(text)) + '\n')
  }

  get isTerminal(): boolean {
    return this.#stdout.isTTY === true && !this.json
  }

  /** Whether a person reads what is said on stderr as it comes. */
  get isTalkTerminal(): boolean {
    return this.#stderr.isTTY === true
  }

  get columns(): number {
    return this.#stdout.columns ?? 100
  }

  /** Styled for stdout: honours NO_COLOR, FORCE_COLOR and whether it is a terminal. */
  style(style: Style, text: string): string {
    return styleText(style, text, { stream: this.#stdout, validateStream: true })
  }

  styleErr(style: Style, text: string): string {
    return styleText(style, text, { stream: this.#stderr, validateStream: true })
  }
}

// ---- details ----

/** One watch per stream, whoever writes to it. */
const WATCHED = new WeakMap<NodeJS.WriteStream, { readonly outlivesReader: boolean }>()
