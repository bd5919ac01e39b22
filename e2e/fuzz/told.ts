/** Describes a run: what was asked, what was sent and what came out. */
import { type Frame, PLAIN, type Script, type Style } from './case.ts'
import { framesOf, type Sent, shown } from './oracle.ts'
import type { Run } from './rig.ts'
import { deliveredFrames } from './upstream.ts'

export function told({ made, sent, reply, verdict }: Run): string {
  const { api, path, setting, body } = made
  const got =
    reply.status === 200
      ? (framesOf(made, reply) ?? []).map(({ data }) => `  ${short(data)}`)
      : [`  ${short(reply.body.toString())}`]
  return [
    `${api} ${path} ${JSON.stringify(setting)} ${JSON.stringify(body)}`,
    ...sent.flatMap((one, at) => attempt(one, at, sent[at - 1])),
    `the client got status ${reply.status}, ${reply.isWhole ? 'a proper end' : 'a broken connection'}`,
    ...got,
    `wrong: ${verdict.wrong?.kind ?? 'nothing'}: ${short(verdict.wrong?.detail ?? '', 1_500)}`,
  ].join('\n')
}

// ---- details ----

function attempt({ sending, truth, frames, isReadOn }: Sent, at: number, before: Sent | undefined): readonly string[] {
  const { cut, style, whole, status } = sending
  const how = [
    ...(status === undefined ? [] : [`status ${status}`]),
    ...(whole === undefined ? [] : ['one JSON document']),
    cut === undefined ? 'whole' : `cut by ${cut.how} at byte ${cut.at}`,
    ...oddities(style),
  ].join(', ')
  const title = `${isReadOn === true ? 'read on' : `attempt ${at + 1}`} (${how})`
  if (status !== undefined || frames === before?.frames) return [title]
  const delivered = deliveredFrames({ ...sending, frames: sending.frames })
  const left = sending.frames.length - delivered.length
  return [
    title,
    ...(whole === undefined ? delivered : frames).map(line),
    ...(whole === undefined && left > 0 ? [`  … and ${left} frames that were not sent, or not whole`] : []),
    `  says ${short(shown(truth), 1_500)}`,
  ]
}

const line = ({ event, data }: Frame): string => `  ${event === undefined ? '' : `${event}: `}${short(data)}`

/** What is not as usual on the wire. */
function oddities({ writes, extras, lineEnd, space, json, bom, framing, encoding }: Style): readonly string[] {
  const rest = { lineEnd, space, json, bom, framing, encoding }
  const usual: Readonly<Record<string, Script['style'][keyof Style]>> = PLAIN
  return [
    ...Object.entries(rest).flatMap(([key, value]) =>
      value === usual[key] ? [] : [`${key} ${JSON.stringify(value)}`],
    ),
    ...(extras.length > 0 ? [`extras ${JSON.stringify(extras)}`] : []),
    ...(writes === 'frames' ? ['a write for each frame'] : writes.length > 0 ? [`writes of ${writes.join(' ')}`] : []),
  ]
}

const short = (text: string, most = 400): string => (text.length > most ? `${text.slice(0, most)}…` : text)
