/** Gemini's generated content, as events and as an array: makes streams of every valid form, and reads what a client gets. */
import { type Answer, type Call, isText, type Lane, type Piece, split } from './answer.ts'
import type { Api } from './api.ts'
import type { Frame, Json } from './case.ts'
import type { Dice } from './dice.ts'
import { objectIn, objectsIn, parsed, textIn } from './json.ts'
import { type Said, SaidPieces } from './said.ts'

export const gemini: Api = {
  name: 'gemini',
  abilities: {
    kinds: ['text', 'text', 'text', 'text', 'call', 'call', 'thought', 'opaque'],
    lanesMax: 2,
    signed: ['text', 'thought', 'call'],
  },
  request: (dice, { lanes }) => ({
    path: `/v1beta/models/m:streamGenerateContent${dice.chance('array', 25) ? '' : '?alt=sse'}`,
    body: {
      contents: [{ role: 'user', parts: [{ text: 'x' }] }],
      ...(lanes.length > 1 ? { generationConfig: { candidateCount: lanes.length } } : {}),
      ...(dice.chance('tools', 50) ? { tools: [{ functionDeclarations: [{ name: 'ls' }] }] } : {}),
    },
  }),
  frames,
  whole: (answer, attempt) => ({
    candidates: answer.lanes.map((lane, index) => candidate(index, lane.pieces.map(part), finishOf(lane))),
    usageMetadata: usageOf(answer),
    modelVersion: 'm',
    responseId: `r${attempt}`,
  }),
  unfolded: (whole) => [{ data: JSON.stringify(whole) }],
  read,
  error: (dice) => ({
    data: JSON.stringify({
      error: { code: dice.one('code', [503, 500, 429]), message: 'it broke', status: 'UNAVAILABLE' },
    }),
  }),
}

// ---- making ----

const part = (piece: Piece): Json => {
  const signature = 'signature' in piece ? { thoughtSignature: piece.signature } : {}
  if (piece.kind === 'opaque') return { executableCode: { language: 'PYTHON', code: piece.id } }
  if (piece.kind === 'call')
    return { functionCall: { id: piece.id, name: piece.name, args: JSON.parse(piece.args) as unknown }, ...signature }
  return { text: piece.text, ...(piece.kind === 'thought' ? { thought: true } : {}), ...signature }
}

const candidate = (index: number, parts: readonly Json[], finishReason?: string): Json => ({
  content: { parts, role: 'model' },
  ...(finishReason === undefined ? {} : { finishReason }),
  index,
})

const finishOf = ({ isShort }: Lane): string => (isShort ? 'MAX_TOKENS' : 'STOP')

const usageOf = ({ usage: [prompt, output] }: Answer): Json => ({
  promptTokenCount: prompt,
  candidatesTokenCount: output,
  totalTokenCount: prompt + output,
})

function frames(dice: Dice, answer: Answer, attempt: number): readonly Frame[] {
  const style = dice.in('style')
  const top = {
    modelVersion: 'm',
    responseId: `r${attempt}`,
    ...(style.chance('unknown', 15) ? { x_unknown: { a: ['é'] } } : {}),
  }
  const usage = { usageMetadata: usageOf(answer) }
  const lists = answer.lanes.map((lane, index) =>
    laneChunks(dice.in(`chunks ${index}`), lane).map((parts) => ({ index, parts })),
  )
  const rounds = Math.max(...lists.map(({ length }) => length))
  const isTogether = style.chance('candidates in turns', 50)
  const chunks = isTogether
    ? Array.from({ length: rounds }, (_, at) => lists.flatMap((list) => list.slice(at, at + 1)))
    : lists.flat().map((one) => [one])
  const isReasonOwn = style.chance('reason in its own chunk', 60)
  const reasons = answer.lanes.map(finishOf)
  const isLastOf = (index: number, at: number): boolean =>
    chunks.findLastIndex((chunk) => chunk.some((one) => one.index === index)) === at
  const usageEverywhere = style.chance('usage everywhere', 40)
  const data: Json[] = chunks.map((chunk, at) => ({
    candidates: chunk.map(({ index, parts }) =>
      candidate(index, parts, !isReasonOwn && isLastOf(index, at) ? reasons[index] : undefined),
    ),
    ...(!isReasonOwn && at === chunks.length - 1
      ? usage
      : usageEverywhere
        ? { usageMetadata: { ...usage.usageMetadata, candidatesTokenCount: 0 } }
        : {}),
    ...top,
  }))
  const last = {
    candidates: reasons.map((reason, index) => candidate(index, [{ text: '' }], reason)),
    ...usage,
    ...top,
  }
  return [...data, ...(isReasonOwn ? [last] : [])].map((json) => ({ data: JSON.stringify(json) }))
}

/** The parts of each chunk: texts in pieces, several parts in one chunk. The signature of a text is on its last piece, or on an empty one. */
function laneChunks(dice: Dice, lane: Lane): readonly (readonly Json[])[] {
  const parts = lane.pieces.flatMap((piece, at): readonly Json[] => {
    if (piece.kind === 'call' && dice.chance(`streamed ${at}`, 20)) return streamed(dice.in(`streamed ${at}`), piece)
    if (!isText(piece)) return [part(piece)]
    const { signature, kind } = piece
    const texts = split(dice.in(`split ${at}`), piece.text)
    const isSignedLater = signature !== undefined && dice.chance(`signed later ${at}`, 30)
    const made = texts.map((text, index) => {
      const isSigned = signature !== undefined && !isSignedLater && index === texts.length - 1
      return part(isSigned ? { kind, text, signature } : { kind, text })
    })
    return isSignedLater ? [...made, part({ kind, text: '', signature })] : made
  })
  const percent = dice.one('several parts', [0, 15, 50])
  const chunks: Json[][] = []
  for (const [at, one] of parts.entries()) {
    const last = chunks.at(-1)
    if (last !== undefined && dice.chance(`joined ${at}`, percent)) last.push(one)
    else chunks.push([one])
  }
  return chunks
}

/** The same call with its arguments in pieces and a separate end. */
function streamed(dice: Dice, { id, name, args, signature }: Call): readonly Json[] {
  const pieces = split(dice, args).map((stringValue) => [{ jsonPath: '$.a', stringValue, willContinue: true }])
  return [
    {
      functionCall: { id, name, willContinue: true },
      ...(signature === undefined ? {} : { thoughtSignature: signature }),
    },
    ...pieces.map((partialArgs) => ({ functionCall: { partialArgs, willContinue: true } })),
    { functionCall: {} },
  ]
}

// ---- reading ----

function read(list: readonly Frame[]): Said {
  const pieces = new SaidPieces()
  const problems: string[] = []
  const finish: unknown[] = []
  const lanes = new Set<number>()
  /** The arguments of the last call, as they are streamed. */
  const grown: string[] = []
  const identities = new Set<string>()
  let [usage, isError]: [unknown, boolean] = [undefined, false]
  for (const { data } of list) {
    const json = parsed(data)
    if (json['error'] != null) {
      isError = true
      continue
    }
    identities.add(JSON.stringify([json['responseId'], json['modelVersion']]))
    if (json['usageMetadata'] !== undefined) usage = json['usageMetadata']
    for (const one of objectsIn(json, 'candidates')) {
      const lane = Number(one['index'] ?? 0)
      lanes.add(lane)
      for (const made of objectsIn(objectIn(one, 'content'), 'parts')) {
        const text = textIn(made, 'text')
        if (finish[lane] !== undefined && text !== '') problems.push(`text after the finish reason of ${lane}`)
        if (made['functionCall'] !== undefined) {
          const call = objectIn(made, 'functionCall')
          const name = textIn(call, 'name')
          if (name !== '') grown[lane] = ''
          else for (const piece of objectsIn(call, 'partialArgs')) grown[lane] += textIn(piece, 'stringValue')
          if (name === '') pieces.completeCall(lane, grown[lane] ?? '')
          else pieces.call(lane, textIn(call, 'id'), name, JSON.stringify(call['args']) ?? '')
        } else if (made['executableCode'] !== undefined)
          pieces.opaque(lane, textIn(objectIn(made, 'executableCode'), 'code'))
        else pieces.text(lane, made['thought'] === true ? 'thought' : 'text', text)
        if (made['thoughtSignature'] !== undefined) pieces.sign(lane, textIn(made, 'thoughtSignature'))
      }
      if (one['finishReason'] !== undefined) finish[lane] = one['finishReason']
    }
  }
  if (identities.size > 1) problems.push(`several ids: ${[...identities].join(' ')}`)
  const isProven = lanes.size > 0 && [...lanes].every((lane) => finish[lane] !== undefined)
  return {
    pieces: pieces.all(),
    signatures: pieces.signatures,
    finish,
    usage,
    isProven,
    isComplete: false,
    isError,
    problems,
  }
}
