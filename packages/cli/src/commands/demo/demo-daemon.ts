/** The demo's daemon, supervised: killed by a button, it comes back at the same address, and its turns continue. */
import type { DaemonAddress } from '@breakfall/client'
import { type Fault, faultFrom, isFaultReport } from '@breakfall/faults'
import { supervise, type Supervised } from '@breakfall/supervisor'
import { type Environment, sendSignal } from '@breakfall/supervisor/platform'
import { readToken } from '../../daemon/find.ts'
import { type ChaosAnswer, chaosRequestIn } from '../../demo-setup/chaos-link.ts'
import { startArguments } from '../../process/self.ts'
import type { DemoControl } from './buttons.ts'

const ANSWER_MS = 100 // for the answer to `kill -9 the daemon` to reach the page

export type DemoDaemon = {
  readonly supervised: Supervised
  /** Fails with the daemon's own report if it cannot start. */
  readonly start: () => Promise<void>
  /** Its address, once it listens. It stays the same. */
  readonly address: () => DaemonAddress | undefined
}

export function demoDaemon(
  setup: DemoControl,
  options: { readonly args: readonly string[]; readonly env: Environment; readonly onRestart: () => void },
): DemoDaemon {
  let address: DaemonAddress | undefined
  let problem: Fault | undefined
  const answer = (line: ChaosAnswer): void => {
    supervised.write(`${JSON.stringify(line)}\n`).catch(() => undefined) // killed meanwhile: the page asks again
  }
  const supervised: Supervised = supervise({
    name: 'the daemon',
    command: process.execPath,
    args: [...startArguments(), 'up', '--json', '--demo', '--state-dir', setup.stateDir, ...options.args],
    cwd: setup.folder,
    env: { ...definedIn(options.env), ...setup.env },
    inheritEnv: false,
    stdin: 'pipe',
    channel: 'none',
    ready: { kind: 'line', pattern: /^\{"event":"listening"/, stream: 'stdout' },
    mayRestart: () => address !== undefined, // what cannot start once would fail the same way again
    limits: { backoffMs: 200, stableMs: 1_000, failuresMax: 1_000, stdinMs: 8_000 },
    onLine: (line, stream) => {
      if (stream !== 'stdout') return
      address ??= addressIn(line)
      problem ??= problemIn(line)
      const asked = chaosRequestIn(line)
      if (asked === undefined) return
      const { id, request } = asked
      if (request.method === 'kill' && request.what === 'daemon') {
        answer({ id, result: {} })
        setTimeout(() => killNow(supervised), ANSWER_MS)
        return
      }
      setup.act(request).then(
        (result) => answer({ id, result }),
        (error: unknown) => answer({ id, fault: faultFrom(error).report }),
      )
    },
  })
  supervised.on((event) => {
    if (event.type === 'state' && event.state.status === 'backoff') options.onRestart()
  })
  return {
    supervised,
    address: () => address,
    start: async () => {
      try {
        await supervised.start()
      } catch (thrown) {
        throw problem ?? thrown
      }
    },
  }
}

// ---- details ----

function killNow({ pid }: Supervised): void {
  if (pid !== null) sendSignal(pid, 'SIGKILL')
}

function addressIn(line: string): DaemonAddress | undefined {
  if (!line.startsWith('{"event":"listening"')) return undefined
  const { url, tokenFile }: { url: string; tokenFile: string } = JSON.parse(line)
  return { url, token: readToken(tokenFile), tokenSource: tokenFile }
}

/** What a daemon that ends at once reports in its result line. */
function problemIn(line: string): Fault | undefined {
  if (!line.startsWith('{"event":"result"')) return undefined
  const { fault }: { fault?: unknown } = JSON.parse(line)
  return isFaultReport(fault) ? faultFrom(fault) : undefined
}

const definedIn = (env: Environment): Record<string, string> =>
  Object.fromEntries(Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])))
