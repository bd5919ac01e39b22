/**
 * N steps, each of which adds a line to a file and prints the file's checksum. The checksum depends on every line before
 * it, so the last answer proves that each tool ran exactly once and in order, no matter which faults happened.
 *
 * On an unexpected checksum the script checks the file before it does anything else, as a careful agent does when an
 * outcome is unknown.
 */
import type { Move, Turn } from './conversation.ts'

export const STEPS_MAX = 10_000
/** Each turn of a conversation has its own file: lines of an earlier turn would change every checksum. */
export const stepsFile = (earlier: number): string => (earlier === 0 ? 'steps.log' : `steps-${earlier + 1}.log`)

export function steps(turn: Turn, count: number): Move {
  const sums = checksums(count)
  const file = stepsFile(turn.earlier)
  const state = stateOf(turn, file, sums)
  if (state.wrong !== null) return { text: `Step ${state.wrong.step} is wrong: ${state.wrong.why}` }
  if (state.isUnsure) {
    return {
      text: `I did not see the result of step ${state.done + 1}, so I will check the file.`,
      calls: [bash(checkCommand(file))],
    }
  }
  const step = state.done + 1
  if (step > count) {
    const ran = count === 1 ? 'The step ran once' : `All ${count} steps ran, each once and in order`
    return { text: `${ran}. Checksum: ${sums[count]}.` }
  }
  return {
    ...(step % 3 === 1 ? { reasoning: `${step - 1} of ${count} steps are done. Line ${step} is next.` } : {}),
    text: `Step ${step} of ${count}: I add line ${step}.`,
    calls: [bash(stepCommand(step, count, file))],
  }
}

export function stepCommand(step: number, count: number, file = stepsFile(0)): string {
  return `echo 'line ${step} of ${count}' >> ${file}; ${checkCommand(file)}`
}

/** A tool that does what `sh` would do with these commands, without a process: for thousands of runs. */
export function createStepsTool(): { bash(command: string): string; readonly log: string } {
  const logs = new Map<string, string>()
  return {
    bash: (command) => {
      const [, line, file] =
        /^(?:echo '(line \d+ of \d+)' >> steps[-\d]*\.log; )?cksum < (steps[-\d]*\.log)$/.exec(command) ?? []
      if (file === undefined) return `sh: not supported here: ${command}`
      const log = (logs.get(file) ?? '') + (line === undefined ? '' : `${line}\n`)
      logs.set(file, log)
      return `${cksum(Buffer.from(log))}\n`
    },
    get log() {
      return logs.get(stepsFile(0)) ?? ''
    },
  }
}

/** As POSIX `cksum` prints it for its standard input: CRC and length. */
export function cksum(bytes: Uint8Array): string {
  return finished(advanced(0, bytes), bytes.length)
}

// ---- details ----

const checkCommand = (file: string): string => `cksum < ${file}`
const bash = (command: string): { name: string; arguments: Record<string, unknown> } => ({
  name: 'bash',
  arguments: { command },
})

const TRIES_MAX = 3 // per step: with a shell that does nothing the script would never end

type State = {
  readonly done: number
  readonly isUnsure: boolean
  readonly wrong: { readonly step: number; readonly why: string } | null
}

/** The latest evidence decides: a client may drop older results from a long conversation. */
function stateOf(turn: Turn, file: string, sums: readonly string[]): State {
  const check = checkCommand(file)
  let state: State = { done: 0, isUnsure: false, wrong: null }
  let tries = 0
  for (const { arguments: args, result } of turn.calls) {
    const command = String(args['command'])
    const [, number] = /^echo 'line (\d+) of /.exec(command) ?? []
    const step = number === undefined ? state.done + 1 : Number(number)
    if (gives(result, sums[step])) state = { done: step, isUnsure: false, wrong: null }
    else if (number !== undefined) state = { done: step - 1, isUnsure: true, wrong: null }
    else if (command !== check) state = { ...state, isUnsure: true } // a call that was cut off on its way to the client
    else if (gives(result, sums[step - 1])) state = { done: step - 1, isUnsure: false, wrong: null }
    else state = { done: step - 1, isUnsure: true, wrong: { step, why: mismatch(file, sums[step], result) } }
    tries = state.done === step ? 0 : tries + (command === check ? 0 : 1)
    if (tries > TRIES_MAX) state = { ...state, wrong: { step, why: `after ${tries} tries the line is still missing.` } }
  }
  return state
}

const gives = (result: string | null, sum: string | undefined): boolean =>
  result !== null && sum !== undefined && new RegExp(`(?<!\\d)${sum}(?!\\d)`).test(result)

const mismatch = (file: string, sum: string | undefined, result: string | null): string =>
  `${file} should give ${sum}, got ${JSON.stringify((result ?? '').slice(0, 200))}. ` +
  'The file existed before (delete it and start again), or a line was added twice or is missing.'

/** The checksum after each step; the one at 0 is that of the empty file. */
function checksums(count: number): string[] {
  const sums = [finished(0, 0)]
  let crc = 0
  let length = 0
  for (let step = 1; step <= count; step += 1) {
    const line = Buffer.from(`line ${step} of ${count}\n`)
    crc = advanced(crc, line)
    length += line.length
    sums.push(finished(crc, length))
  }
  return sums
}

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, i) => {
  let crc = i << 24
  for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000_0000 ? (crc << 1) ^ 0x04c1_1db7 : crc << 1
  return crc
})

function advanced(crc: number, bytes: Iterable<number>): number {
  let state = crc
  for (const byte of bytes) state = ((state << 8) ^ (CRC_TABLE[((state >>> 24) ^ byte) & 0xff] ?? 0)) >>> 0
  return state
}

function finished(crc: number, length: number): string {
  const lengthBytes: number[] = []
  for (let left = length; left > 0; left = Math.floor(left / 256)) lengthBytes.push(left % 256)
  return `${~advanced(crc, lengthBytes) >>> 0} ${length}`
}
