/** What text needs only after the first paint, in a separate file: the Markdown lexer and the line diff. */
export { diffLines } from 'diff'
export { blocksOf, markdown } from './markdown.ts'
