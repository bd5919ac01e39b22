/** Runs an agent's command once in its own folder, and collects what it prints. Nothing that it starts outlives it. */
import { supervise } from '@breakfall/supervisor'
import type { AgentRun } from '@breakfall/chaos'

const OUTPUT_BYTES_MAX = 64 * 1024 * 1024
const SAID_CHARS_MAX = 160

export async function runAgent(options: {
  readonly command: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  readonly msMax: number
  readonly signal: AbortSignal
}): Promise<Pick<AgentRun, 'output' | 'end'>> {
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
  const exited = new Promise<Pick<AgentRun, 'output' | 'end'>>((resolve) => {
    agent.on((event) => {
      if (event.type !== 'exit') return
      const { report } = event
      const output = Buffer.concat(chunks).toString('utf8')
      const said = explanationIn([...report.stdoutTail, ...report.stderrTail])
      const isTimeout = report.endedBy === 'stop'
      resolve({
        output,
        end: isTimeout ? { kind: 'timeout', ms: options.msMax } : { kind: 'exit', code: report.code, said },
      })
    })
  })
  const stop = (): void => void agent.stop()
  const timer = setTimeout(stop, options.msMax)
  options.signal.addEventListener('abort', stop, { once: true })
  try {
    await agent.start()
    return await exited
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
