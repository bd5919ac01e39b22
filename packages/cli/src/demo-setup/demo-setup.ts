/**
 * Everything that surrounds the daemon of a rehearsal or a demo: a scripted model in place of a paid one, a proxy that breaks its answers,
 * and a real runner that can be killed and can move. Everything lives in one scratch folder.
 */
import { spawnSync } from 'node:child_process'
import { lstatSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type * as Chaos from '@breakfall/chaos'
import type { FaultProxy, Plan } from '@breakfall/chaos'
import { Fault } from '@breakfall/faults'
import type { Environment } from '@breakfall/supervisor/platform'
import type { Output } from '../terminal/output.ts'
import { type DemoRunner, startDemoRunner } from './demo-runner.ts'
import { type MovingProxy, startMovingProxy } from './moving-proxy.ts'

export type DemoSetup = {
  /** Where turns work. */
  readonly folder: string
  readonly stateDir: string
  readonly modelUrl: string
  /** Breaks the model's answers. */
  readonly proxy: FaultProxy
  readonly runner: DemoRunner
  readonly moving: MovingProxy
  /** Tells the daemon where the runner is and how soon to notice a stall, and keeps the user's configuration out. */
  readonly env: Readonly<Record<string, string>>
  readonly close: () => Promise<void>
}

export async function startDemoSetup(options: {
  name: 'rehearsal' | 'demo'
  plan: (chaos: typeof Chaos) => Plan
  isolation: 'bwrap' | 'process' | undefined
  chunkMs: number
  livenessMs: number
}): Promise<DemoSetup> {
  const chaos = await import('@breakfall/chaos')
  const plan = options.plan(chaos)
  await using started = new AsyncDisposableStack() // cleans up if a later part fails to start
  const scratch = makeScratch(options.name)
  started.defer(() => rmSync(scratch, { recursive: true, force: true, maxRetries: 5 }))
  const [stateDir, folder] = [join(scratch, 'state'), join(scratch, 'project')]
  mkdirSync(folder)
  const { isolation } = options
  const runner = await startDemoRunner({ stateDir: join(scratch, 'runner'), allowWorkspace: [folder], isolation })
  started.defer(() => runner.stop())
  const model = await chaos.startRehearsalModel({ chunkDelayMs: options.chunkMs })
  started.defer(() => model.close())
  const proxy = await chaos.startFaultProxy({ upstream: new URL(model.url).origin, plan })
  started.defer(() => proxy.close())
  const moving = await startMovingProxy(new URL(runner.url).port, chaos.startTcpProxy)
  started.defer(() => moving.close())
  const parts = started.move()
  return {
    folder,
    stateDir,
    modelUrl: `${proxy.url.replace(/\/$/, '')}/v1`,
    proxy,
    runner,
    moving,
    env: {
      XDG_CONFIG_HOME: join(scratch, 'config'), // the user's own servers and providers have no part in it
      BREAKFALL_RUNNER_URL: moving.url,
      BREAKFALL_RUNNER_TOKEN_FILE: runner.tokenFile,
      BREAKFALL_RUNNER_RESOLVE_URL: moving.resolveUrl,
      BREAKFALL_POLICY_LIVENESS_MS: String(options.livenessMs),
    },
    close: () => parts.disposeAsync(),
  }
}

export function makeScratch(name: 'rehearsal' | 'demo'): string {
  try {
    sweepScratch(`breakfall-${name}-`)
    return mkdtempSync(join(tmpdir(), `breakfall-${name}-`))
  } catch (cause) {
    throw new Fault('invalid_request', {
      error: `Cannot create a scratch folder in ${tmpdir()}; set TMPDIR to a folder that you can write to`,
      cause,
    })
  }
}

/** The requested level, or the best that works here. Says so if that is no sandbox. */
export function chosenIsolation(
  asked: 'bwrap' | 'process' | undefined,
  what: string,
  out: Pick<Output, 'say'>,
): 'bwrap' | 'process' {
  const isolation = asked ?? (hasWorkingBwrap() ? 'bwrap' : 'process')
  if (isolation === 'process')
    out.say(
      asked === 'process'
        ? `${what} runs its commands without a sandbox, as you asked (level "process").`
        : `bubblewrap does not work here, so ${what} runs its commands without a sandbox (level "process").`,
    )
  return isolation
}

/** The caller's own settings do not matter here. */
export const withoutBreakfall = (env: Environment): Environment =>
  Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('BREAKFALL_')))

// ---- details, in the order they are used above ----

const STALE_MS = 24 * 60 * 60_000 // nothing here takes that long

/** Removes what our killed ones left behind. Another user could swap folders of theirs for links while we remove them. */
function sweepScratch(prefix: string): void {
  for (const name of readdirSync(tmpdir()).filter((entry) => entry.startsWith(prefix))) {
    const folder = join(tmpdir(), name)
    const stat = lstatSync(folder, { throwIfNoEntry: false })
    const isOurs = stat !== undefined && stat.uid === (process.getuid?.() ?? stat.uid)
    try {
      if (isOurs && Date.now() - stat.mtimeMs > STALE_MS) rmSync(folder, { recursive: true, force: true })
    } catch {
      // still in use: leaving it does no harm
    }
  }
}

function hasWorkingBwrap(): boolean {
  return (
    spawnSync('bwrap', ['--unshare-all', '--ro-bind', '/', '/', '--proc', '/proc', '--dev', '/dev', 'true'], {
      timeout: 10_000,
    }).status === 0
  )
}
