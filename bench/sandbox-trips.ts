/** Ways to run `true` in a sandbox, in one interleaved run with pauses: the latency of one command after a model's step. */
import { setTimeout as sleep } from 'node:timers/promises'
import { sandboxRuntime, SANDBOX_RUNTIME } from './peers/sandbox-runtime.ts'
import { quantile, round, table } from './kit.ts'
import { RAW_BWRAP, type RawSandboxes, type RawWay } from './raw-sandboxes.ts'

const ROUNDS = 60
const WARM_UP = 5
const PAUSE_MS = 60
const PEER_EVERY = 4 // one run of the peer takes as long as all of the others

type Way = RawWay & { readonly every?: number }

export async function sandboxTrips(ways: {
  readonly plain: () => Promise<unknown>
  readonly process: () => Promise<unknown>
  readonly bwrap: () => Promise<unknown>
  readonly raw: RawSandboxes
}): Promise<string> {
  const peer = await sandboxRuntime()
  const all: readonly Way[] = [
    { name: 'plain spawn', run: ways.plain },
    { name: 'exec, level process', run: ways.process },
    { name: 'exec, level bwrap', run: ways.bwrap },
    ...(typeof peer === 'string'
      ? []
      : [
          {
            name: `sandbox-runtime ${SANDBOX_RUNTIME.version} (\`srt\`)`,
            run: () => peer.run(['true']),
            every: PEER_EVERY,
          },
        ]),
    ...ways.raw.ways,
  ]
  const samples = new Map(all.map(({ name }) => [name, [] as number[]]))
  for (let i = 0; i < ROUNDS + WARM_UP; i += 1) {
    for (const { name, prepare, run, every = 1 } of all) {
      if (i % every !== 0) continue
      await prepare?.()
      await sleep(PAUSE_MS)
      const from = performance.now()
      await run()
      if (i >= WARM_UP) samples.get(name)?.push(performance.now() - from)
    }
  }
  const of = (name: string, q = 0.5): number => quantile(samples.get(name) ?? [], q)
  const process = of('exec, level process')
  const ratio = of('exec, level bwrap') / of(RAW_BWRAP)
  const rows = all.map(({ name }) => [
    name,
    round(of(name)),
    round(of(name, 0.95)),
    `${round(of(name) / of('plain spawn'))}×`,
    `${round(of(name) / process)}×`,
  ])
  return [
    `## With pauses of ${PAUSE_MS} ms\n\nMedian of ${ROUNDS}, in turns. The goal for level bwrap is ${GOAL} times raw bwrap with our arguments: ${Number.isNaN(ratio) ? 'not known' : `${round(ratio)} here (${ratio <= GOAL ? 'kept' : 'missed'})`}. Until November 2026 the goal was 1.1 times level process, which only sandboxes built ahead can keep; we removed them (docs/decisions/0021).\n`,
    table(['', 'p50', 'p95', 'against a plain spawn', 'against level process'], rows),
    '\nThe raw ways are a word to a shell and its answer, without HTTP, log and limits. D, E, K and P are rejected designs: see the header of `bench/raw-sandboxes.ts`.',
    ...(ways.raw.missing.length > 0 ? [`\nNot possible here: ${ways.raw.missing.join('; ')}.`] : []),
    ...(typeof peer === 'string' ? [`\nsandbox-runtime did not take part: ${peer}.`] : []),
    '',
  ].join('\n')
}

const GOAL = 1.3
