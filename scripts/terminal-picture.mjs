/**
 * Turns the coloured output of a command into a picture for the README:
 *   FORCE_COLOR=1 npm start 2>&1 | node scripts/terminal-picture.mjs "npm start" docs/npm-start.svg
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { stripVTControlCharacters } from 'node:util'

const ESC = String.fromCharCode(27)

const [command = '', target = ''] = process.argv.slice(2)
const COLUMNS = 110
const STYLES = {
  1: 'font-weight="700"',
  2: 'fill="#8b949e"',
  31: 'fill="#f85149"',
  32: 'fill="#3fb950"',
  33: 'fill="#d29922"',
  36: 'fill="#39c5cf"',
}

const text = readFileSync(0, 'utf8').replace(/\r/g, '')
const shown = text.split('\n').filter((line) => !/^(?:> |\[setup\]|npm )/.test(line))
while (shown[0]?.trim() === '') shown.shift()
while (shown.at(-1)?.trim() === '') shown.pop()
const lines = [`${ESC}[2m$ ${command}${ESC}[0m`, ...shown].flatMap(wrap)

const height = 20 + lines.length * 18
const rows = lines.map((line, i) => `<text x="14" y="${26 + i * 18}" xml:space="preserve">${spans(line)}</text>`)
writeFileSync(
  target,
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${COLUMNS * 8 + 28} ${height + 12}" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13" fill="#e6edf3" role="img"><title>${escape(command)}</title><rect width="100%" height="100%" rx="8" fill="#0d1117"/>${rows.join('')}</svg>\n`,
)

function spans(line) {
  let style = []
  return line
    .split(new RegExp(`(${ESC}\\[[\\d;]*m)`))
    .map((part) => {
      const code = part.startsWith(ESC) ? /\[([\d;]*)m$/.exec(part) : null
      if (code === null)
        return part === '' ? '' : `<tspan ${style.map((s) => STYLES[s] ?? '').join(' ')}>${escape(part)}</tspan>`
      for (const number of code[1].split(';')) {
        if (number === '' || number === '0') style = []
        else if (number === '22') style = style.filter((s) => s !== '1' && s !== '2')
        else if (number === '39') style = style.filter((s) => !s.startsWith('3'))
        else style.push(number)
      }
      return ''
    })
    .join('')
}

function wrap(line) {
  const plain = stripVTControlCharacters(line)
  if (plain.length <= COLUMNS) return [line]
  // A styled line has one style from start to end, so we cut the plain text and style both halves alike.
  const open = line.slice(0, line.indexOf(plain[0]))
  const out = []
  for (let at = 0; at < plain.length; at += COLUMNS) out.push(`${open}${plain.slice(at, at + COLUMNS)}${ESC}[0m`)
  return out
}

function escape(part) {
  return part.replace(/[<>&]/g, (c) => `&#${c.charCodeAt(0)};`)
}
