// On a phone, a table with three or more columns is shown as one block for each row: site.css writes the title of the
// column, which this script copies to each cell, before the cell.
for (const table of document.querySelectorAll("table.docutils")) {
  const titles = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.trim());
  for (const row of table.querySelectorAll("tbody tr")) {
    [...row.cells].forEach((cell, place) => { cell.dataset.column = titles[place] ?? ""; });
  }
}
