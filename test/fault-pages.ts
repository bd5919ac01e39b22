/**
 * What `npm run faults` writes into docs/faults: the line below the title of a page, its example on the wire, and the index. The rest of
 * a page is written by hand, also what the example is about: the comment above it. Pure: texts in, texts out.
 */
import {
  EXIT_CODE_BY_CATEGORY,
  Fault,
  FAULT_CATEGORIES,
  type FaultCategory,
  type FaultInit,
  FAULTS,
  type FaultReport,
  toProblem,
} from '@breakfall/faults'
import { diagnose } from '@breakfall/supervisor'

export const HEADINGS = ['What it means', 'On the wire', 'What Breakfall does', 'What you can do']

/** The page as it should be. Throws if it says nothing about its example. */
export function freshPage(category: FaultCategory, page: string): string {
  const { title, class: faultClass, next, http } = FAULTS[category]
  const facts = `Status ${http}, exit code ${EXIT_CODE_BY_CATEGORY[category]}, class \`${faultClass}\`, next \`${next}\`.`
  const [, form = '', comment] = EXAMPLE.exec(page) ?? []
  if (comment === undefined) throw new Error(`docs/faults/${category}.md lacks ${WANTED}`)
  const example = exampleOf(category, FORMS[form] ?? ((report) => report), comment)
  return page
    .replace(/^# .*\n\n.*\n/, () => `# ${category}\n\n${title}. ${facts}\n`)
    .replace(
      BLOCK,
      (_, before: string) => `${before}\`\`\`json\n${JSON.stringify(example, undefined, 2)}\n\`\`\`\n\n## `,
    )
}

/** A page to fill in, for a category without one. */
export const newPage = (category: FaultCategory): string =>
  freshPage(
    category,
    `# ${category}\n\n\n${HEADINGS.map((heading) => `\n## ${heading}\n\n${heading === 'On the wire' ? NEW_EXAMPLE : ''}`).join('')}`,
  )

/** The index: what is above its first heading stays. */
export function freshIndex(index: string): string {
  const rowOf = (category: FaultCategory): string => {
    const { title, class: faultClass, next, http } = FAULTS[category]
    const link = `[${category}](${category}.md)`
    return `| ${[link, title, faultClass, next, http, EXIT_CODE_BY_CATEGORY[category]].join(' | ')} |\n`
  }
  const tables = Object.entries(SECTIONS).map(([boundary, heading]) => {
    const rows = FAULT_CATEGORIES.filter((category) => FAULTS[category].boundary === boundary).map(rowOf)
    return `## ${heading}\n\n| category | what happened | class | next | http | exit |\n|---|---|---|---|---|---|\n${rows.join('')}`
  })
  return `${index.slice(0, index.indexOf('## '))}${tables.join('\n')}`
}

// ---- details ----

/** By what the page says above the example. */
const FORMS: Readonly<Record<string, (report: FaultReport) => object>> = {
  'As the response to a request': (report) => toProblem(report),
  'As the last event of a turn': (report) => ({ type: 'turn-error', ...report, turnId: TURN }),
}

const EXAMPLE = /\n## On the wire\n\n(.+):\n\n<!-- example: (\{.+\}) -->\n/
const BLOCK = /(\n## On the wire\n\n.+:\n\n<!-- example: .+ -->\n)[^]*?\n## /
const WANTED = 'a comment <!-- example: {"errorRaw":"…"} --> below "On the wire"'
const NEW_EXAMPLE = 'As a report inside a response or an event:\n\n<!-- example: {"errorRaw":"…"} -->\n'
const TURN = '0198c2f0-0000-7000-8000-00000000000a'
const AT = '2026-11-15T12:00:00.000Z'

/** What a fault is built from, the evidence of its diagnostics, and what only that event has. */
type Example = FaultInit & { readonly evidence?: readonly string[]; readonly event?: object }

function exampleOf(category: FaultCategory, form: (report: FaultReport) => object, comment: string): object {
  const { evidence = [], event, ...init } = JSON.parse(comment) as Example
  const diagnostics = evidence.flatMap((lines) => diagnose(lines))
  return { ...form(new Fault(category, { ...init, diagnostics, at: AT }).report), ...event }
}

const SECTIONS: Readonly<Record<string, string>> = {
  runner: 'Runner',
  box: 'Boxes and execs',
  model: 'Model',
  process: 'Child processes',
  mcp: 'Tools from outside',
  journal: 'Journal',
  daemon: 'Daemon',
  client: 'Requests',
}
