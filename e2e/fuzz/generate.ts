/** Makes the case of a seed: a request, and up to four attempts of which all but the last are likely to break. */
import type { RelayApiName } from '@breakfall/model'
import { type Answer, makeAnswer, makeRetry } from './answer.ts'
import type { Api } from './api.ts'
import { APIS } from './apis.ts'
import {
  type Background,
  type Case,
  type Cut,
  EXACT,
  type Frame,
  type Json,
  type Script,
  type Setting,
  type Style,
} from './case.ts'
import { Dice, times, type Trace } from './dice.ts'
import { encoded } from './wire.ts'

export type Choice = {
  readonly seed: number
  readonly api?: RelayApiName | undefined
  readonly trace?: Trace | undefined
}

export function makeCase({ seed, api: wanted, trace }: Choice): Case {
  const dice = new Dice(seed, trace)
  const drawn = dice.one('api', APIS)
  const api = APIS.find(({ name }) => name === wanted) ?? drawn
  const first = makeAnswer(dice.in('answer'), api.abilities)
  const { path, body } = api.request(dice.in('request'), first)
  const setting = makeSetting(dice.in('setting'), api)
  const count = 1 + dice.one('attempts', [0, 1, 1, 1, 2, 3])
  const attempts = times(count, (at) => {
    const own = dice.in(`attempt ${at}`)
    const answer = at === 0 ? first : makeRetry(own.in('answer'), first, api.abilities)
    return makeScript(own, { api, answer, at, isLast: at === count - 1, body, setting })
  })
  return { api: api.name, setting, path, body, attempts }
}

// ---- details ----

function makeSetting(dice: Dice, api: Api): Setting {
  const hold = dice.one('hold', ['tools', 'tools', 'tools', 'none', 'auto', 'answer'] as const)
  const canContinue = api.continued !== undefined && dice.chance('continues', 12)
  return {
    hold,
    ...(canContinue ? { profile: dice.one('profile', ['vllm', 'mistral', 'deepseek', 'sglang'] as const) } : {}),
    ...(dice.chance('compressed', 3) ? { isCompressed: true } : {}),
    ...(dice.chance('limit', 5) ? { limit: dice.one('which limit', LIMITS) } : {}),
  }
}

const LIMITS = ['hold 0 ms', 'hold 6000 bytes', 'ping 2 ms', 'silence 60 ms'] as const

type Making = {
  readonly api: Api
  readonly answer: Answer
  readonly at: number
  readonly isLast: boolean
  readonly body: Json
  readonly setting: Setting
}

function makeScript(dice: Dice, { api, answer, at, isLast, body, setting }: Making): Script {
  const isWhole = dice.chance('one document', 7)
  const whole = isWhole ? api.whole(answer, at) : undefined
  const plain = whole === undefined ? api.frames(dice.in('frames'), answer, at, body) : api.unfolded(whole)
  const style = {
    ...makeStyle(dice.in('wire'), plain, setting),
    ...(api.shape === undefined ? {} : { shape: api.shape }),
  }
  const isExact = whole === undefined && style.json !== 'lines' && dice.chance('exact numbers', 20)
  const frames = isExact ? plain.map((frame, place) => withExact(dice.in(`exact ${place}`), frame)) : plain
  const isCut = isLast ? dice.chance('cut', 12) : !dice.chance('uncut', 12)
  const cut = isCut ? makeCut(dice.in('cut'), frames, style, api, whole, setting) : undefined
  return {
    frames,
    ...(whole === undefined ? {} : { whole }),
    ...(!isLast && dice.chance('refused', 5) ? { status: dice.one('status', [503, 500, 529, 408]) } : {}),
    style,
    ...(cut === undefined ? {} : { cut }),
    ...(body['background'] === true ? { background: makeBackground(dice.in('background'), frames.length) } : {}),
    ...(dice.chance('on prefill', 40)
      ? { onPrefill: dice.one('how', ['refuse', 'start over', 'start like it', 'start like it'] as const) }
      : {}),
  }
}

/** Not where the gateway fills in numbers and ids that a server left out, and so writes the last event again. */
function withExact(dice: Dice, frame: Frame): Frame {
  const isFilledIn = frame.event?.startsWith('response.') === true && !frame.data.includes('"sequence_number"')
  if (!frame.data.endsWith('}') || isFilledIn || !dice.chance('here', 50)) return frame
  return { ...frame, data: `${frame.data.slice(0, -1)},${EXACT}}` }
}

const makeBackground = (dice: Dice, count: number): Background => ({
  cuts: times(dice.one('cuts', [0, 0, 1, 2]), (at) => dice.int(`cut ${at}`, count)),
  isTooOld: dice.chance('too old', 15),
  polls: dice.int('polls', 3),
})

function makeStyle(dice: Dice, frames: readonly Frame[], setting: Setting): Style {
  const comments = dice.chance('extras', 15) ? 1 + dice.int('how many', 3) : 0
  const writes = dice.int('writes', 10)
  return {
    lineEnd: dice.one('line end', ['\n', '\n', '\n', '\r\n', '\r', 'mixed'] as const),
    space: dice.chance('no space', 15) ? '' : ' ',
    json: dice.one('json', ['compact', 'compact', 'compact', 'compact', 'escaped', 'lines'] as const),
    extras: times(comments, (at) => ({
      before: dice.int(`before ${at}`, frames.length),
      line: dice.one(`line ${at}`, [': ping', ':', 'id: 7', 'retry: 1000', 'unknown: field']),
    })),
    bom: dice.chance('byte order mark', 2),
    framing: dice.one('framing', ['chunked', 'chunked', 'chunked', 'close', 'length'] as const),
    encoding: setting.isCompressed === true ? dice.one('encoding', ['', 'gzip', 'deflate', 'br'] as const) : '',
    writes:
      writes < 4
        ? []
        : writes < 7
          ? 'frames'
          : times(dice.int('pieces', 24), (at) => 1 + dice.int(`size ${at}`, dice.one('sizes', [8, 80, 600]))),
  }
}

function makeCut(
  dice: Dice,
  frames: readonly Frame[],
  style: Style,
  api: Api,
  whole: Json | undefined,
  { limit }: Setting,
): Cut {
  const size = whole === undefined ? 0 : Buffer.byteLength(JSON.stringify(whole))
  if (whole !== undefined) return { how: dice.one('how', ['reset', 'fin', 'clean'] as const), at: dice.int('at', size) }
  const { starts, bytes } = encoded(frames, style)
  const frame = dice.int('frame', frames.length)
  const from = starts[frame] ?? 0
  const how = dice.one('how', ['reset', 'fin', 'fin', 'clean', 'error'] as const)
  if (how === 'error') return { how, at: from, frame: api.error(dice.in('error')) }
  const offset = dice.chance('anywhere', 40) ? dice.int('offset', (starts[frame + 1] ?? bytes.length) - from) : 0
  return { how: limit === 'silence 60 ms' && dice.chance('silent', 70) ? 'stall' : how, at: from + offset }
}
