/** `breakfall explain`: give it an error, a log, an exit code or a turn's id; it tells category, cause, evidence, what to do. */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { type Boundary, EXIT_CODE_BY_CATEGORY, Fault, type FaultReport } from '@breakfall/faults'
import type { DaemonClient } from '../daemon-client.ts'
import { explain } from '../explain.ts'
import type { Output } from '../output.ts'

/** Enough for any error; of a longer log the end counts. */
const INPUT_BYTES_MAX = 64 * 1024 * 1024

export type ExplainInput = {
  /** A file, `-`, an id of a turn, or the text itself. */
  readonly given: string | undefined
  readonly boundary: Boundary
  readonly daemon: () => Promise<DaemonClient>
}

export async function explainCommand(input: ExplainInput, out: Output): Promise<void> {
  const report = await reportFor(input)
  if (out.json) {
    out.data(report)
    return
  }
  print(report, out)
}

// ---- details ----

async function reportFor({ given, boundary, daemon }: ExplainInput): Promise<FaultReport> {
  if (given !== undefined && /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f-]{17}$/.test(given)) {
    const turn = await (await daemon()).turn(given)
    if (turn.fault !== null) return turn.fault as FaultReport
    return new Fault('other', {
      error: `turn ${given} is ${turn.state}; it has no fault to explain`,
      errorRaw: turn.state,
    }).report
  }
  return explain(await textOf(given), boundary).report
}

async function textOf(given: string | undefined): Promise<string> {
  if (given !== undefined && given !== '-')
    return existsSync(given) && statSync(given).isFile() ? endOfFile(given) : given
  if (process.stdin.isTTY) {
    throw new Fault('invalid_request', {
      error: 'give an error text, a file, or pipe a log in: some-command 2>&1 | breakfall explain -',
    })
  }
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    length += chunk.length
    while (length - (chunks[0]?.length ?? 0) > INPUT_BYTES_MAX) length -= chunks.shift()?.length ?? 0
  }
  return Buffer.concat(chunks).toString('utf8')
}

function endOfFile(path: string): string {
  const bytes = readFileSync(path)
  return bytes.subarray(Math.max(0, bytes.length - INPUT_BYTES_MAX)).toString('utf8')
}

function print(report: FaultReport, out: Output): void {
  out.line(out.style('bold', report.error))
  out.line()
  out.line(
    `category   ${report.category} (${report.class}, at the ${report.boundary}${report.phase === undefined ? '' : `, phase ${report.phase}`})`,
  )
  out.line(`what next  ${NEXT_WORDS[report.next]}`)
  out.line(`exit code  ${EXIT_CODE_BY_CATEGORY[report.category]}`)
  out.line(`raw        ${report.errorRaw.split('\n').slice(0, 6).join('\n           ')}`)
  for (const { id, rank, message, advice, evidence, count } of report.diagnostics) {
    out.line()
    out.line(
      `${out.style(rank === 'cause' ? 'red' : 'yellow', rank)}  ${message}  ${out.style('dim', id + (count > 1 ? ` ×${count}` : ''))}`,
    )
    if (advice !== '') out.line(`  do        ${advice}`)
    for (const line of evidence.slice(0, 3)) out.line(out.style('dim', `  evidence  ${line.slice(0, 300)}`))
  }
  if (report.category !== 'other') out.line(out.style('dim', `\nmore: docs/faults/${report.category}.md`))
}

const NEXT_WORDS: Readonly<Record<FaultReport['next'], string>> = {
  never: 'nothing is tried again by itself',
  retry: 'tried again, after a growing wait',
  resolve: 'the address is looked up again, then the call goes there',
  restart: 'the process is restarted, after a growing wait',
  compact: 'the conversation is shortened once',
  park: 'the turn waits, durably, until it can go on',
}
