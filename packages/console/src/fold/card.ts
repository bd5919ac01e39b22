/** The survival card: what a turn went through and got past, as lines, Markdown and SVG. Its numbers are the header's. */
import { oneLine } from '../text/reveal.ts'
import { counted, length } from '../text/format.ts'
import { isSurvivable, type Scar, survivedIn, type TurnView } from './view.ts'

/** "2 broken streams", "1 moved runner": by what happened, most often first. */
export function cardLines(turn: TurnView): readonly string[] {
  const counts = new Map<string, number>()
  for (const scar of turn.scars.filter(isSurvivable).slice(0, survivedIn(turn))) {
    const name = nameOf(scar)
    counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  return [...counts].sort((a, b) => b[1] - a[1]).map(([name, n]) => counted(n, name, plural(name)))
}

export function cardMarkdown(turn: TurnView, title: string): string {
  const lines = cardLines(turn)
  const took = turn.startedAt === null || turn.endedAt === null ? '' : ` in ${length(turn.endedAt - turn.startedAt)}`
  return [
    `**${inMarkdown(oneLine(title, 80))}**: ${counted(turn.steps.length, 'step')}, each once${took}.`,
    '',
    lines.length === 0 ? 'Nothing failed.' : `Survived ${survivedIn(turn)}: ${lines.join(', ')}.`,
    '',
    '`breakfall`',
  ].join('\n')
}

/** Text nodes only, escaped: a title may hold anything. */
export function cardSvg(turn: TurnView, title: string): string {
  const lines = cardLines(turn)
  const height = 150 + Math.max(1, lines.length) * 26
  const marks = turn.scars.filter(isSurvivable).slice(0, 40)
  const text = (x: number, y: number, size: number, fill: string, value: string, weight = 400): string =>
    `<text x="${x}" y="${y}" font-size="${size}" fill="${fill}" font-weight="${weight}">${escaped(value)}</text>`
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 ${height}" font-family="system-ui, sans-serif">`,
    `<rect width="640" height="${height}" rx="16" fill="#0f1318"/>`,
    text(32, 46, 15, '#a3acb9', oneLine(title, 70)),
    text(32, 84, 28, '#e8ebf0', `${counted(turn.steps.length, 'step')}, each once`, 700),
    `<line x1="32" x2="608" y1="112" y2="112" stroke="#5b9dff" stroke-width="6" stroke-linecap="round"/>`,
    ...marks.map((_, index) => {
      const x = 32 + ((index + 1) * 576) / (marks.length + 1)
      return `<path d="M${x - 5} 104l10 16m0-16l-10 16" stroke="#f5c84c" stroke-width="3" stroke-linecap="round"/>`
    }),
    ...(lines.length === 0 ? ['Nothing failed'] : lines).map((line, index) =>
      text(32, 152 + index * 26, 17, '#e8ebf0', line),
    ),
    '</svg>',
  ].join('\n')
}

// ---- details ----

const NAMES: Readonly<Record<string, string>> = {
  model_stream_interrupted: 'cut stream',
  model_stream_incomplete: 'answer that ended early',
  model_stream_stalled: 'stall',
  model_overloaded: 'overloaded model',
  model_rate_limited: 'rate limit',
  model_unreachable: 'model that was away',
  model_protocol_error: 'garbled answer',
  tool_call_truncated: 'cut tool call',
  runner_unreachable: 'moved runner',
  model_auth_failed: 'refused key',
}

function nameOf({ kind, category }: Scar): string {
  if (kind === 'takeover') return 'killed daemon'
  return NAMES[category] ?? category.replaceAll('_', ' ')
}

const plural = (name: string): string =>
  name.includes(' that ') ? name.replace(' that ', 's that ').replace('was away', 'were away') : `${name}s`

/** As text: a title must not become a link or an image where the card is pasted. */
const inMarkdown = (text: string): string => text.replaceAll(/[\\`*_[\]<>~|]/g, String.raw`\$&`)

const escaped = (text: string): string => text.replaceAll(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`)
