/** What text needs only after the first paint, as one file of its own: the Markdown lexer and the line diff. */
export { diffLines } from 'diff'
export { blocksOf, markdown } from './markdown.ts'
