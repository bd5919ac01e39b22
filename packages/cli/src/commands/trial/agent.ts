/** Runs an agent's command once in its own folder, and collects what it prints. Nothing that it starts outlives it. */
import type { AgentRun } from '@breakfall/chaos'
import { supervise } from '@breakfall/supervisor'

const OUTPUT_BYTES_MAX = 64 * 1024 * 1024
const SAID_CHARS_MAX = 160

type Ended = Pick<AgentRun, 'output' | 'end'>

export async function runAgent(options: {
  readonly command: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  readonly msMax: number
  readonly signal: AbortSignal
}): Promise<Ended> {
  const [command = '', ...args] = options.command
  const chunks: Buffer[] = []
  let bytes = 0
  const keep = (chunk: Buffer): void => {
    if (bytes < OUTPUT_BYTES_MAX) chunks.push(chunk)
    bytes += chunk.length
  }
  await using agent = supervise({
    command,
    args,
    cwd: options.cwd,
    env: options.env,
    oneshot: true,
    stdin: 'ignore',
    channel: 'none',
    onStdout: keep,
    onLine: (line, stream) => {
      if (stream === 'stderr') keep(Buffer.from(`${line}\n`))
    },
    mayRestart: () => false,
  })
  const timedOut = (): Ended => ({
    output: Buffer.concat(chunks).toString('utf8'),
    end: { kind: 'timeout', ms: options.msMax },
  })
  const exited = new Promise<Ended>((resolve) => {
    agent.on((event) => {
      if (event.type !== 'exit') return
      const { endedBy, code, stdoutTail, stderrTail } = event.report
      const said = explanationIn([...stdoutTail, ...stderrTail])
      resolve(endedBy === 'stop' ? timedOut() : { ...timedOut(), end: { kind: 'exit', code, said } })
    })
  })
  let isStopped = options.signal.aborted
  const stop = (): void => {
    isStopped = true
    void agent.stop()
  }
  const timer = setTimeout(stop, options.msMax)
  options.signal.addEventListener('abort', stop, { once: true })
  try {
    if (isStopped) return timedOut()
    await agent.start()
    return await exited
  } catch (error) {
    if (!isStopped) throw error
    await agent.stop() // it was stopped while it started
    return timedOut()
  } finally {
    clearTimeout(timer)
    options.signal.removeEventListener('abort', stop)
  }
}

// ---- details ----

/** The last line that names an error, else the last line. */
function explanationIn(lines: readonly string[]): string {
  const line =
    lines.findLast((one) => /error|fail|fatal|abort/i.test(one) && !/^\s*at /.test(one)) ?? lines.at(-1) ?? ''
  return line.trim().slice(0, SAID_CHARS_MAX)
}
