/** Runs many cases at once, counts how they end, and reports what is wrong. */
import type { RelayApiName } from '@breakfall/model'
import { makeCase } from './generate.ts'
import { shown, type Verdict } from './oracle.ts'
import type { Rig, Run } from './rig.ts'
import { framesIn } from './wire.ts'

export type Fuzzing = {
  /** Of the first stream; each stream after it has the next one. */
  readonly seed: number
  readonly streamsMax: number
  /** Ends the run after the streams that are under way. */
  readonly isOver: () => boolean
  readonly api?: RelayApiName | undefined
  readonly atOnce?: number
  readonly onWrong: (seed: number, run: Run) => void
}

export type Tally = Record<Verdict['end'] | 'wrong' | 'streams', number>

export async function fuzz(rig: Rig, { seed, streamsMax, isOver, api, atOnce = 96, onWrong }: Fuzzing): Promise<Tally> {
  const tally: Tally = { streams: 0, accepted: 0, healed: 0, unhealed: 0, broken: 0, refused: 0, wrong: 0 }
  let next = 0
  const lane = async (): Promise<void> => {
    while (next < streamsMax && !isOver()) {
      const own = seed + next++
      const run = await rig.run(makeCase({ seed: own, api }))
      tally.streams++
      if (run.verdict.wrong === undefined) tally[run.verdict.end]++
      else {
        tally.wrong++
        onWrong(own, run)
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, streamsMax) }, lane))
  return tally
}

/** What was asked, what was sent and what came out, for a person. */
export function told({ made, sent, reply, verdict }: Run): string {
  const { api, setting, body } = made
  const attempts = sent.flatMap(({ sending, truth }, at) => {
    const { cut, style, frames, whole, status } = sending
    const { writes, extras, ...rest } = style
    const odd = Object.entries(rest).filter(
      ([key, value]) =>
        value !==
        (
          { lineEnd: '\n', space: ' ', json: 'compact', bom: false, framing: 'chunked', encoding: '' } as Record<
            string,
            unknown
          >
        )[key],
    )
    const how = [
      status === undefined ? '' : `status ${status}`,
      whole === undefined ? '' : 'one JSON document',
      cut === undefined ? 'whole' : `cut by ${cut.how} at byte ${cut.at}`,
      ...odd.map(([key, value]) => `${key} ${JSON.stringify(value)}`),
      ...(extras.length > 0 ? [`extras ${JSON.stringify(extras)}`] : []),
      writes === 'frames' ? 'a write for each frame' : writes.length > 0 ? `writes of ${writes.join(' ')}` : '',
    ].filter((part) => part !== '')
    return [
      `attempt ${at + 1} (${how.join(', ')})`,
      ...frames.map(({ event, data }) => `  ${event === undefined ? '' : `${event}: `}${short(data)}`),
      `  says ${short(shown(truth), 1_500)}`,
    ]
  })
  const got =
    reply.status === 200
      ? framesIn(reply.body).frames.map(({ data }) => `  ${short(data)}`)
      : [`  ${short(reply.body.toString())}`]
  return [
    `${api} ${JSON.stringify(setting)} ${JSON.stringify(body)}`,
    ...attempts,
    `the client got status ${reply.status}, ${reply.isWhole ? 'a proper end' : 'a broken connection'}`,
    ...got,
    `wrong: ${verdict.wrong?.kind ?? 'nothing'}: ${short(verdict.wrong?.detail ?? '', 1_500)}`,
  ].join('\n')
}

const short = (text: string, most = 400): string => (text.length > most ? `${text.slice(0, most)}…` : text)
