/** Whether commands become slower while the first checkpoint of a large workspace is taken: it reads every file. */
import { setTimeout as sleep } from 'node:timers/promises'
import { quantile, round, table } from './kit.ts'

const FILES = 20_000
const FILE_KIB = 50
const PAUSE_MS = 60
const BEFORE = 60

export async function checkpointTrips(box: {
  readonly box: () => Promise<unknown>
  readonly exec: (command: readonly string[]) => Promise<string>
  /** Resolves when it is taken. */
  readonly checkpoint: () => Promise<string>
}): Promise<string> {
  await box.box()
  const made = await box.exec(['sh', '-c', FILL, 'sh', String(FILES), String(FILE_KIB)])
  if (!made.includes('"code":0')) throw new Error(made)
  const trip = async (): Promise<number> => {
    await sleep(PAUSE_MS)
    const from = performance.now()
    await box.exec(['true'])
    return performance.now() - from
  }
  const before: number[] = []
  for (let i = 0; i < BEFORE; i += 1) before.push(await trip())
  const taken = { isOver: false }
  const from = performance.now()
  const taking = box.checkpoint().finally(() => (taken.isOver = true))
  const during: number[] = []
  while (!taken.isOver) during.push(await trip())
  await taking
  const tookMs = performance.now() - from
  const row = (name: string, samples: readonly number[]): readonly (string | number)[] => [
    name,
    samples.length,
    round(quantile(samples, 0.5)),
    round(quantile(samples, 0.95)),
    `${round(quantile(samples, 0.5) / quantile(before, 0.5))}×`,
  ]
  return [
    `## While the first checkpoint is taken\n\n\`true\` at level bwrap, with pauses of ${PAUSE_MS} ms, in a box with ${round((FILES * FILE_KIB) / 1e6)} GB in ${FILES} files. The checkpoint took ${round(tookMs / 1000)} s.\n`,
    table(['', 'execs', 'p50', 'p95', 'against before'], [row('before', before), row('during', during)]),
    '',
  ].join('\n')
}

/** Different bytes in every file, in folders of a hundred. */
const FILL = `head -c $(($2 * 1024)) /dev/urandom >base; i=0
while [ $i -lt $1 ]; do d=$((i / 100)); [ -d $d ] || mkdir $d; { echo $i; cat base; } >$d/$i; i=$((i + 1)); done; rm base`
