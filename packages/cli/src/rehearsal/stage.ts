/**
 * Everything that surrounds the daemon of a rehearsal or a demo: a scripted model in place of a paid one, a proxy that breaks its answers,
 * and a real runner that can be killed and can move. Everything lives in one scratch folder.
 */
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type * as Chaos from '@breakfall/chaos'
import type { FaultProxy, Plan } from '@breakfall/chaos'
import { type MovingProxy, startMovingProxy } from './moving-proxy.ts'
import { makeScratch } from './scratch.ts'
import { type StageRunner, startStageRunner } from './stage-runner.ts'

export type Stage = {
  /** Where turns work. */
  readonly folder: string
  readonly stateDir: string
  readonly modelUrl: string
  /** Breaks the model's answers. */
  readonly proxy: FaultProxy
  readonly runner: StageRunner
  readonly moving: MovingProxy
  /** Tells the daemon where the runner is, and how soon to notice a stall. */
  readonly env: Readonly<Record<string, string>>
  readonly close: () => Promise<void>
}

export async function startStage(options: {
  name: 'rehearsal' | 'demo'
  plan: (chaos: typeof Chaos) => Plan
  isolation: 'bwrap' | 'process' | undefined
  chunkMs: number
  livenessMs: number
}): Promise<Stage> {
  const chaos = await import('@breakfall/chaos')
  const plan = options.plan(chaos)
  await using started = new AsyncDisposableStack() // cleans up if a later part fails to start
  const scratch = makeScratch(options.name)
  started.defer(() => rmSync(scratch, { recursive: true, force: true, maxRetries: 5 }))
  const [stateDir, folder] = [join(scratch, 'state'), join(scratch, 'project')]
  mkdirSync(folder)
  const { isolation } = options
  const runner = await startStageRunner({ stateDir: join(scratch, 'runner'), allowWorkspace: [folder], isolation })
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
      BREAKFALL_RUNNER_URL: moving.url,
      BREAKFALL_RUNNER_TOKEN_FILE: runner.tokenFile,
      BREAKFALL_RUNNER_RESOLVE_URL: moving.resolveUrl,
      BREAKFALL_POLICY_LIVENESS_MS: String(options.livenessMs),
    },
    close: () => parts.disposeAsync(),
  }
}
